package networkpolicy

import "syscall"

// hasSCTP says whether this machine's kernel has SCTP, and so that of a lab.
func hasSCTP() bool {
	socket, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, syscall.IPPROTO_SCTP)
	if err != nil {
		return false
	}
	syscall.Close(socket)
	return true
}
