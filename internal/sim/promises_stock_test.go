package sim

import "oneeffect/emulator/control"

// stockSeen is what was seen of one sku so far.
type stockSeen struct {
	item     *document
	receipts map[string]*document // by key
}

func (i *inspection) stockOf(sku string) *stockSeen {
	s, ok := i.stock[sku]
	if !ok {
		s = &stockSeen{receipts: map[string]*document{}}
		i.stock[sku] = s
	}
	return s
}

// inventory is one commit of receipts and items.
func (i *inspection) inventory(c *commit) {
	var item, receipt *document
	for _, v := range c.versions {
		switch {
		case v.doc == nil:
			i.broken("R1", "%s was deleted", v.id)
			return
		case v.id == "item":
			item = v.doc
		default:
			receipt = v.doc
		}
	}
	if receipt == nil {
		i.broken("R2", "an item is written without a receipt")
		return
	}
	s := i.stockOf(receipt.SKU)
	if _, stands := s.receipts[receipt.Key]; stands {
		i.broken("R1", "the receipt of %s is written again", receipt.Key)
	}
	s.receipts[receipt.Key] = receipt
	i.hold("R1")
	var stands document
	if s.item != nil {
		stands = *s.item
	}
	if item == nil {
		i.hold("R3")
		if receipt.Outcome != "stale" || receipt.Version > stands.Version {
			i.broken("R3", "version %d of %s is %s alone, and its item is at version %d", receipt.Version, receipt.SKU, receipt.Outcome, stands.Version)
		}
		return
	}
	i.hold("R2")
	s.item = item
	if receipt.Outcome != "applied" || receipt.Version != item.Version {
		i.broken("R2", "%s comes to version %d with a receipt that says %s of version %d", item.SKU, item.Version, receipt.Outcome, receipt.Version)
	}
	if item.Version <= stands.Version {
		i.broken("R3", "%s comes to version %d from %d", item.SKU, item.Version, stands.Version)
	}
	event := i.eventOf(receipt.Key)
	want := stands.Stock - event.Quantity
	if event.Count {
		want = event.Quantity
	}
	if item.Stock != want && !i.contested(receipt.Key) {
		i.broken("R4", "%s has %d after %s, want %d", item.SKU, item.Stock, receipt.Key, want)
	}
	switch {
	case stands.Version == 0 && !event.Count && item.Version != 1:
		i.broken("R8", "%s begins with version %d of a reservation", item.SKU, item.Version)
	case stands.Version > 0 && receipt.Gap != item.Version-stands.Version-1:
		i.broken("R8", "%s comes to version %d from %d, and its receipt says a gap of %d", item.SKU, item.Version, stands.Version, receipt.Gap)
	case receipt.Gap > 0:
		i.hold("R8")
	}
}

func (i *inspection) eventOf(key string) stockPlan {
	for _, e := range i.h.plan.Stock {
		if e.Key == key {
			return e
		}
	}
	return stockPlan{}
}

// contested keys come with two contents, and either may be first.
func (i *inspection) contested(key string) bool {
	first := i.eventOf(key)
	for _, e := range i.h.plan.Stock {
		if e.Key == key && e.Quantity != first.Quantity {
			return true
		}
	}
	return false
}

func (i *inspection) eventOfMessage(transport string) *stockPlan {
	for n, e := range i.h.plan.Stock {
		if e.Transport == transport {
			return &i.h.plan.Stock[n]
		}
	}
	return nil
}

// stockSettled: nothing is completed before its receipt stands.
func (i *inspection) stockSettled(e *control.Event) {
	event := i.eventOfMessage(e.Key)
	if event == nil {
		return
	}
	receipt := i.stockOf(event.SKU).receipts[event.Key]
	switch e.Disposition {
	case "completed":
		i.hold("P1")
		if receipt == nil {
			i.broken("P1", "%s is completed, and there is no receipt of %s", e.Key, event.Key)
			return
		}
		if receipt.Version != event.Version {
			i.broken("R5", "%s is completed as version %d, its receipt is of version %d", e.Key, event.Version, receipt.Version)
		}
		if !event.Count && receipt.Delta != -event.Quantity {
			i.broken("R5", "%s of quantity %d is completed, and its receipt says %d", e.Key, event.Quantity, receipt.Delta)
		}
		if e.Delivery > 1 {
			i.hold("R6")
		}
	case "abandoned":
		i.hold("P3")
	}
}

// stockDead: what is dead-lettered has changed nothing.
func (i *inspection) stockDead(e *control.Event) {
	event := i.eventOfMessage(e.Key)
	if event == nil {
		return
	}
	receipt := i.stockOf(event.SKU).receipts[event.Key]
	i.hold("P2")
	if e.Reason == "UnknownItem" {
		i.hold("P3")
	}
	switch {
	case e.Reason == "ReceiptConflict":
		i.hold("R5")
		if receipt == nil || !i.contested(event.Key) || !event.Count && receipt.Delta == -event.Quantity {
			i.broken("R5", "%s is dead-lettered as a conflict, and its receipt is %+v", e.Key, receipt)
		}
	case e.Reason == "UnknownItem" && i.now.at.Sub(i.events.seen[e.Entity+" "+e.Key]) < 5*second:
		i.broken("P3", "%s is dead-lettered as unknown, and nobody has waited for the beginning of %s", e.Key, event.SKU)
	case e.Reason == "UnknownItem" && receipt != nil:
		i.broken("P2", "%s is dead-lettered as unknown, and it has a receipt", e.Key)
	}
}

// stockEnds: what a sku has is the sum of its receipts since it was counted.
func (i *inspection) stockEnds() {
	for sku, s := range i.stock {
		switch {
		case len(s.receipts) == 0:
			continue
		case s.item == nil:
			i.broken("R2", "%s has receipts and no item", sku)
			continue
		}
		i.hold("R4")
		var counted int64
		want := int64(0)
		for key, r := range s.receipts {
			if e := i.eventOf(key); e.Count && r.Outcome == "applied" && r.Version > counted {
				counted, want = r.Version, e.Quantity
			}
		}
		for _, r := range s.receipts {
			if r.Outcome == "applied" && r.Version > counted {
				want += r.Delta
			}
		}
		if s.item.Stock != want {
			i.broken("R4", "%s has %d, and its receipts make %d", sku, s.item.Stock, want)
		}
	}
}
