package main

import "syscall"

// endsWithUs has the kernel kill the child when this process is gone, however it went:
// what nobody is there to stop would hold its ports, and go on taking tasks. It is the
// thread that started the child that counts; the runtime ends none that it has begun.
func endsWithUs(attributes *syscall.SysProcAttr) { attributes.Pdeathsig = syscall.SIGKILL }
