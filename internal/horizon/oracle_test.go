package horizon

import "time"

// The relations once more, in plain arithmetic and without any of the machinery
// that the table is made of. Where the two differ, one of them is wrong.

func attemptOf(s Settings, h Handler) time.Duration {
	w := s.Worker.StoreTimeout.Value
	return w + time.Duration(h.Calls.Value)*(h.Call.Value+w)
}

func takeoverOf(s Settings) time.Duration {
	return max(s.Tasks.Lock.Value, s.Worker.Lease.Value+s.Worker.ChallengerMargin.Value)
}

func storyOf(s Settings, h Handler) time.Duration {
	w := s.Worker
	one := attemptOf(s, h) + w.PublishTimeout.Value + takeoverOf(s) + w.BusyWait.Value + h.BackoffMax.Value
	return time.Duration(w.MaxAttempts.Value) * one
}

func everyHandler(s Settings, holds func(Handler) bool) bool {
	for _, h := range s.Handlers {
		if !holds(h) {
			return false
		}
	}
	return true
}

func everyEntity(s Settings, holds func(Entity) bool) bool {
	return holds(s.Tasks) && holds(s.Events) && holds(s.Reservations)
}

var oracle = map[string]func(Settings) bool{
	"H1": func(s Settings) bool {
		third := func(p Process, e Entity) bool { return p.LockRenewal.Value <= e.Lock.Value/3 }
		return everyEntity(s, func(e Entity) bool {
			return e.Lock.Value >= 5*time.Second && e.Lock.Value <= 5*time.Minute
		}) && third(s.Worker.Process, s.Tasks) && third(s.Orchestrator.Process, s.Events) && third(s.Projector.Process, s.Reservations)
	},
	"H2": func(s Settings) bool { return s.Worker.ChallengerMargin.Value >= time.Second+s.Store.Skew.Value },
	"H3": func(s Settings) bool {
		return s.Worker.OwnerMargin.Value >= s.Worker.Lease.Value/2000+250*time.Millisecond
	},
	"H4": func(s Settings) bool {
		w := s.Worker
		return 2*w.Renewal.Value+w.StoreTimeout.Value <= w.Lease.Value-w.OwnerMargin.Value
	},
	"H5": func(s Settings) bool { return s.Worker.StoreTimeout.Value <= s.Worker.Renewal.Value/2 },
	"H6": func(s Settings) bool {
		return everyHandler(s, func(h Handler) bool {
			return h.Call.Value+s.Worker.StoreTimeout.Value <= s.Worker.Lease.Value-s.Worker.OwnerMargin.Value
		})
	},
	"H7": func(s Settings) bool {
		w := s.Worker
		late := w.Lease.Value + w.ChallengerMargin.Value + time.Second + w.StoreTimeout.Value - s.Tasks.Lock.Value
		return w.BusyWait.Value >= max(0, late) && w.BusyWait.Value+w.StoreTimeout.Value+w.SettleTimeout.Value < s.Tasks.Lock.Value
	},
	"H8": func(s Settings) bool {
		w := s.Worker
		return w.Buffered.Value+w.StoreTimeout.Value <= s.Tasks.Lock.Value-w.SettleTimeout.Value
	},
	"H9": func(s Settings) bool {
		return s.Worker.PublishTimeout.Value+s.Worker.SettleTimeout.Value <= s.Tasks.Lock.Value/2
	},
	"H10": func(s Settings) bool {
		return s.Worker.MaxAttempts.Value <= s.Tasks.MaxDelivery.Value-2 &&
			(!s.Official.Value || everyEntity(s, func(e Entity) bool { return e.MaxDelivery.Value <= 10 }))
	},
	"H11": func(s Settings) bool {
		return everyHandler(s, func(h Handler) bool { return s.Worker.Keep.Value >= s.TaskLife.Value+storyOf(s, h)+24*time.Hour })
	},
	"H12": func(s Settings) bool {
		return s.Tasks.TTL.Value <= s.TaskLife.Value && everyEntity(s, func(e Entity) bool { return e.DeadLetter.Value })
	},
	"H13": func(s Settings) bool {
		return everyHandler(s, func(h Handler) bool {
			return !h.Keyed && h.KeyWindow.Value == 0 || storyOf(s, h) <= h.KeyWindow.Value-s.Worker.KeyMargin.Value
		})
	},
	"H14": func(s Settings) bool { return s.Orchestrator.ReplayAge.Value <= s.TaskLife.Value },
	"H15": func(s Settings) bool {
		return everyHandler(s, func(h Handler) bool {
			return s.Orchestrator.UnknownReplayAge.Value >= s.Worker.Lease.Value+s.Worker.ChallengerMargin.Value+h.Call.Value+15*time.Minute
		})
	},
	"H16": func(s Settings) bool {
		e := s.Store.KeepExecutions.Value
		return e >= s.Worker.Keep.Value && e >= s.TaskLife.Value+s.Events.TTL.Value+s.Orchestrator.ReplayAge.Value
	},
	"H17": func(s Settings) bool {
		o := s.Orchestrator
		return o.SendTimeout.Value < o.RelayAge.Value && o.RelayAge.Value+2*o.RelayPeriod.Value < s.Tasks.DuplicateWindow.Value
	},
	"H18": func(s Settings) bool {
		d := s.Tasks.DuplicateWindow.Value
		official := d <= 5*time.Minute && everyEntity(s, func(e Entity) bool { return e.TTL.Value <= time.Hour })
		return d >= 20*time.Second && d <= 7*24*time.Hour && (!s.Official.Value || official)
	},
	"H19": func(s Settings) bool {
		o := s.Orchestrator
		return everyHandler(s, func(h Handler) bool {
			return o.ReconcileAge.Value >= takeoverOf(s)+attemptOf(s, h)+s.Worker.PublishTimeout.Value
		}) && o.FirstRedispatch.Value >= o.ReconcileAge.Value && o.ReconcilePeriod.Value <= o.ReconcileAge.Value
	},
	"H20": func(s Settings) bool {
		o := s.Orchestrator
		seen := o.ReconcileAge.Value + o.ReconcilePeriod.Value
		read := seen + o.ReconcileBudget.Value
		return read < s.Worker.Keep.Value && read < s.TaskLife.Value && seen < s.Events.TTL.Value
	},
	"H21": func(s Settings) bool {
		held := time.Duration(s.Events.MaxDelivery.Value) * s.Events.Lock.Value
		return s.Orchestrator.Reconciler.Value || held >= s.Orchestrator.Outage.Value
	},
	"H22": func(s Settings) bool {
		p := s.Projector
		return p.KeepReceipts.Value >= s.Reservations.TTL.Value+p.ReplayAge.Value && p.WebhookRetry.Value < p.KeepReceipts.Value
	},
	"H23": func(s Settings) bool {
		stops := func(p Process) bool {
			return p.StoreTimeout.Value+p.SettleTimeout.Value+5*time.Second < p.Grace.Value &&
				p.Termination.Value >= p.PreStop.Value+p.Grace.Value &&
				(!p.ContainerApps.Value || p.Termination.Value <= 600*time.Second)
		}
		w := s.Worker
		drain := w.Grace.Value - w.StoreTimeout.Value - w.SettleTimeout.Value - 5*time.Second
		return stops(w.Process) && stops(s.Orchestrator.Process) && stops(s.Projector.Process) &&
			everyHandler(s, func(h Handler) bool {
				if h.Keyed {
					return drain >= h.Call.Value
				}
				return drain >= attemptOf(s, h)
			})
	},
	"H24": func(s Settings) bool {
		k := s.Worker.Cooldown.Value
		return k >= s.Worker.Grace.Value && everyHandler(s, func(h Handler) bool { return k >= attemptOf(s, h)+s.Tasks.Lock.Value })
	},
	"H25": func(s Settings) bool {
		return everyHandler(s, func(h Handler) bool { return !h.Keyed || h.BackoffMax.Value >= time.Second })
	},
	"H26": func(s Settings) bool {
		return everyHandler(s, func(h Handler) bool {
			return !h.Keyed || time.Duration(h.Attempts.Value)*(h.Call.Value+h.BackoffMax.Value) <= storyOf(s, h)
		})
	},
	"H27": func(s Settings) bool {
		return s.ExecutionID.Value <= 96 && s.ExecutionID.Value+s.MessageIDSuffix.Value <= 128 &&
			s.Orchestrator.MaxMessage.Value+(8<<10) <= s.Tasks.MaxMessage.Value &&
			everyHandler(s, func(h Handler) bool { return h.Calls.Value*h.Result.Value+(96<<10) <= 2<<20 })
	},
	"H28": func(s Settings) bool {
		db := s.Store
		return db.ClaimTTL.Value && db.InventoryTTL.Value && db.WebhookTTL.Value && !db.MultipleWrites.Value && db.Session.Value
	},
}
