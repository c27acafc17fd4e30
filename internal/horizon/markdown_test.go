package horizon

import (
	"fmt"
	"slices"
	"strings"
)

// markdown is the table as people read it: every relation with its formula, the
// numbers of the defaults, what goes wrong and what to change. It is made of the
// clauses that Check decides by.
func markdown() string {
	var out strings.Builder
	all := clauses(Defaults())
	out.WriteString("| | what must hold | as a formula | by default | else | remedy |\n|---|---|---|---|---|---|\n")
	for _, r := range Relations() {
		var formulas, numbers, reasons, remedies []string
		for _, c := range all {
			if c.relation != r.Name {
				continue
			}
			if !slices.Contains(formulas, c.formula()) {
				formulas = append(formulas, c.formula())
				numbers = append(numbers, c.numbers())
			}
			reasons = append(reasons, c.otherwise)
			if remedy := c.remedy(func(l lever) string { return l.symbol }); remedy != "" {
				remedies = append(remedies, remedy)
			}
		}
		fmt.Fprintf(&out, "| %s | %s | %s | %s | %s | %s |\n", r.Name, r.Words,
			strings.Join(formulas, "<br>"), strings.Join(numbers, "<br>"), strings.Join(distinct(reasons), "; "), strings.Join(distinct(remedies), "<br>"))
	}
	out.WriteString("\n| symbol | is |\n|---|---|\n")
	for _, s := range symbols(all) {
		fmt.Fprintf(&out, "| %s | %s |\n", s.sign, s.meaning)
	}
	fmt.Fprintf(&out, "| ρ | how far a clock runs wrong at most: %d of a million |\n", Drift)
	fmt.Fprintf(&out, "| T_sched | how long a process that could run may have to wait: %s |\n", short(Stall))
	return out.String()
}

// symbols lists those of the clauses, in the order of their first use.
func symbols(all []clause) []symbol {
	var found []symbol
	for _, c := range all {
		for _, s := range slices.Concat(c.left.symbols, c.right.symbols) {
			known := slices.ContainsFunc(found, func(f symbol) bool { return f.sign == s.sign })
			if s.meaning != "" && !known {
				found = append(found, s)
			}
		}
	}
	return found
}

func (c clause) numbers() string {
	switch {
	case !c.applies:
		return "–"
	case c.op == equal:
		return c.left.brief()
	}
	return c.left.brief() + " " + c.op.sign() + " " + c.right.brief()
}
