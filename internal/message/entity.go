package message

// The entities of the broker. A subscription has its consumer's name.
const (
	Tasks        = "tasks"        // queue: Task
	TaskEvents   = "task-events"  // topic without duplicate detection: Completed, Failed
	Orchestrator = "orchestrator" // subscription of TaskEvents
)
