package engine

import "slices"

// known is a range of server error codes, with both ends.
type known struct {
	from, to int
	name     string
	means    meaning
	cause    Cause
}

// meaning is what a code says of its command: why nothing was executed and no
// repeat will be, which is the step at which the server refuses the command; or
// that the command may have been executed, and the reason passes.
type meaning string

const (
	// The command is read, and its sender's rights are checked, before any
	// document is looked for.
	unread meaning = "the command is not accepted"

	// A router, or a shard before it runs the command, finds no place for the
	// command.
	unrouted meaning = "the command is not routed"

	// The server computes and checks the new document inside the storage
	// transaction. The error rolls it back.
	uncomputed meaning = "the new document is not stored"

	// The server is shutting down, being elected or overloaded, or something
	// interrupted this one command.
	interrupted meaning = "maybe executed, and it passes"
)

// knownCodes are the error codes that say something, see docs/error-codes.md. A command
// with any other error may have been executed, and may get the same answer for
// ever. Some errors come after the write (no image, or too large a reply). Some
// come from a router that doesn't know what the shard did. For most, no
// documentation promises anything. The projections of this package raise no
// errors, see layout.go: an expression that does is the update's or the filter's.
var knownCodes = []known{
	{2, 2, "BadValue", unread, CauseOther},
	{9, 9, "FailedToParse", unread, CauseOther},
	{13, 13, "Unauthorized", unread, CauseUnauthorized},
	{14, 14, "TypeMismatch", unread, CauseOther},
	{18, 18, "AuthenticationFailed", unread, CauseOther},
	{20, 20, "IllegalOperation", unread, CauseOther},
	{22, 22, "InvalidBSON", unread, CauseOther},
	{26, 26, "NamespaceNotFound", unread, CauseOther},
	{59, 59, "CommandNotFound", unread, CauseOther},
	{72, 72, "InvalidOptions", unread, CauseOther},
	{73, 73, "InvalidNamespace", unread, CauseOther},
	{115, 115, "CommandNotSupported", unread, CauseUnsupported},
	{123, 123, "NotAReplicaSet", unread, CauseUnsupported},
	{148, 148, "ReadConcernMajorityNotEnabled", unread, CauseUnsupported},
	{166, 166, "CommandNotSupportedOnView", unread, CauseView},
	{167, 167, "OptionNotSupportedOnView", unread, CauseView},
	{168, 168, "InvalidPipelineOperator", unread, CauseUnsupported},
	{224, 224, "QueryFeatureNotAllowed", unread, CauseOther},
	{238, 238, "NotImplemented", unread, CauseUnsupported},
	{263, 263, "OperationNotSupportedInTransaction", unread, CauseOther},
	{303, 303, "feature not supported (Amazon DocumentDB)", unread, CauseUnsupported},
	{322, 324, "APIVersionError, APIStrictError, APIDeprecationError", unread, CauseOther},
	{371, 371, "UserWritesBlocked", unread, CauseOther},
	{391, 391, "ReauthenticationRequired", unread, CauseOther},
	{17276, 17276, "undefined variable", unread, CauseUnsupported},
	{15942, 15999, "a malformed expression or path", unread, CauseOther},
	{16020, 16020, "a wrong number of operands", unread, CauseOther},
	{16410, 16412, "a malformed path", unread, CauseOther},
	{16874, 16883, "malformed $let or $map", unread, CauseOther},
	{31249, 31256, "a malformed projection", unread, CauseOther},
	{31319, 31325, "an unknown expression", unread, CauseOther},
	{40272, 40272, "a malformed $set stage", unread, CauseOther},
	{40323, 40323, "a malformed pipeline stage", unread, CauseOther},
	{40352, 40353, "a malformed path", unread, CauseOther},
	{40324, 40324, "unknown pipeline stage", unread, CauseUnsupported},
	{40413, 40415, "IDLDuplicateField, IDLFailedToParse, IDLUnknownField", unread, CauseOther},

	{61, 61, "ShardKeyNotFound", unrouted, CauseShardKey},

	{28, 28, "PathNotViable", uncomputed, CauseOther},
	{34, 34, "CannotBackfillArray", uncomputed, CauseOther},
	{40, 40, "ConflictingUpdateOperators", uncomputed, CauseOther},
	{52, 57, "DollarPrefixedFieldName, InvalidIdField, NotSingleValueField, InvalidDBRef, EmptyFieldName, DottedFieldName", uncomputed, CauseOther},
	{66, 66, "ImmutableField", uncomputed, CauseOther},
	{116, 116, "DocTooLargeForCapped", uncomputed, CauseOther},
	{121, 121, "DocumentValidationFailure", uncomputed, CauseValidator},
	{171, 171, "CannotIndexParallelArrays", uncomputed, CauseOther},
	{201, 201, "CannotBuildIndexKeys", uncomputed, CauseOther},
	{241, 241, "ConversionFailure", uncomputed, CauseOther},
	{283, 283, "WouldChangeOwningShard", uncomputed, CauseOther},
	{10003, 10003, "CannotGrowDocumentInCappedNamespace", uncomputed, CauseCapped},
	{11000, 11000, "DuplicateKey", uncomputed, CauseOther},
	{16837, 16837, "the update can't be applied to the document", uncomputed, CauseOther},
	{17419, 17420, "the new document is larger than 16 MB", uncomputed, CauseOther},

	{16006, 16007, "an operand that can't be coerced", uncomputed, CauseOther},
	{16034, 16035, "$substr", uncomputed, CauseOther},
	{16554, 16556, "$add, $multiply, $subtract", uncomputed, CauseOther},
	{16608, 16612, "$divide, $mod, $add", uncomputed, CauseOther},
	{16702, 16702, "$concat", uncomputed, CauseOther},
	{17040, 17049, "expressions on sets", uncomputed, CauseOther},
	{17080, 17083, "$cond", uncomputed, CauseOther},
	{17124, 17124, "$size", uncomputed, CauseOther},
	{28646, 28651, "$filter", uncomputed, CauseOther},
	{28656, 28657, "$substrBytes", uncomputed, CauseOther},
	{28664, 28664, "$concatArrays", uncomputed, CauseOther},
	{28689, 28691, "$arrayElemAt", uncomputed, CauseOther},
	{28724, 28729, "$slice", uncomputed, CauseOther},
	{28756, 28766, "$log, $pow, $ln and other arithmetic", uncomputed, CauseOther},
	{34443, 34455, "$range and $substrCP", uncomputed, CauseOther},
	{34460, 34473, "$zip and lengths of strings", uncomputed, CauseOther},
	{40060, 40068, "$switch", uncomputed, CauseOther},
	{40075, 40081, "$reduce, $in", uncomputed, CauseOther},
	{40085, 40097, "$split, $indexOfArray and its kin", uncomputed, CauseOther},
	{40386, 40400, "$arrayToObject, $objectToArray, $mergeObjects", uncomputed, CauseOther},

	{6, 6, "HostUnreachable", interrupted, CauseOther},
	{7, 7, "HostNotFound", interrupted, CauseOther},
	{24, 24, "LockTimeout", interrupted, CauseOther},
	{46, 46, "LockBusy", interrupted, CauseOther},
	{50, 50, "MaxTimeMSExpired", interrupted, CauseOther},
	{64, 64, "WriteConcernTimeout", interrupted, CauseOther},
	{89, 89, "NetworkTimeout", interrupted, CauseOther},
	{90, 90, "CallbackCanceled", interrupted, CauseOther},
	{91, 91, "ShutdownInProgress", interrupted, CauseOther},
	{112, 112, "WriteConflict", interrupted, CauseOther},
	{133, 133, "FailedToSatisfyReadPreference", interrupted, CauseOther},
	{134, 134, "ReadConcernMajorityNotAvailableYet", interrupted, CauseOther},
	{189, 189, "PrimarySteppedDown", interrupted, CauseOther},
	{202, 202, "NetworkInterfaceExceededTimeLimit", interrupted, CauseOther},
	{262, 262, "ExceededTimeLimit", interrupted, CauseOther},
	{279, 279, "ClientDisconnect", interrupted, CauseOther},
	{281, 281, "TransactionCoordinatorSteppingDown", interrupted, CauseOther},
	{282, 282, "TransactionCoordinatorReachedAbortDecision", interrupted, CauseOther},
	{290, 290, "TransactionExceededLifetimeLimitSeconds", interrupted, CauseOther},
	{317, 317, "ConnectionPoolExpired", interrupted, CauseOther},
	{355, 355, "InterruptedDueToStorageChange", interrupted, CauseOther},
	{365, 365, "TemporarilyUnavailable", interrupted, CauseOther},
	{384, 384, "ConnectionError", interrupted, CauseOther},
	{402, 402, "ResourceExhausted", interrupted, CauseOther},
	{407, 407, "PooledConnectionAcquisitionExceededTimeLimit", interrupted, CauseOther},
	{433, 433, "AdmissionQueueOverflow", interrupted, CauseOther},
	{449, 449, "RateLimitExceeded", interrupted, CauseOther},
	{450, 450, "PooledConnectionAcquisitionRejected", interrupted, CauseOther},
	{453, 453, "InterruptedDueToReshardingCriticalSection", interrupted, CauseOther},
	{462, 462, "IngressRequestRateLimitExceeded", interrupted, CauseOther},
	{9001, 9001, "SocketException", interrupted, CauseOther},
	{10058, 10058, "LegacyNotPrimary", interrupted, CauseOther},
	{10107, 10107, "NotWritablePrimary", interrupted, CauseOther},
	{11600, 11600, "InterruptedAtShutdown", interrupted, CauseOther},
	{11601, 11601, "Interrupted", interrupted, CauseOther},
	{11602, 11602, "InterruptedDueToReplStateChange", interrupted, CauseOther},
	{13435, 13435, "NotPrimaryNoSecondaryOk", interrupted, CauseOther},
	{13436, 13436, "NotPrimaryOrSecondary", interrupted, CauseOther},
	{46841, 46841, "ClientMarkedKilled", interrupted, CauseOther},
	{91331, 91331, "RetriableRemoteCommandFailure", interrupted, CauseOther},
	{10045600, 10045600, "InterruptedDueToFCVChange", interrupted, CauseOther},
}

// refused returns the refusal that the code is, or nil.
func refused(code int) *known {
	if k := lookUp(code); k != nil && k.means != interrupted {
		return k
	}
	return nil
}

// unstorable says that the refusal is about one document.
func unstorable(code int) bool {
	k := lookUp(code)
	return k != nil && k.means == uncomputed
}

func passes(code int) bool {
	k := lookUp(code)
	return k != nil && k.means == interrupted
}

func lookUp(code int) *known {
	i := slices.IndexFunc(knownCodes, func(k known) bool { return k.from <= code && code <= k.to })
	if i < 0 {
		return nil
	}
	return &knownCodes[i]
}
