package otel

// ErrorTypes are the texts that errorType returns, but for the codes of a server.
func ErrorTypes() (names []string) {
	for _, t := range errorTypes {
		names = append(names, t.name)
	}
	return append(names, networkType, notAcquiredType, otherType) // timeoutType is among them
}
