package amqp

// Code is the constructor of an encoded value (1.6): its type and width. The
// upper half tells how the data is laid out:
//
//	4x none   5x 1 byte  6x 2 bytes  7x 4 bytes  8x 8 bytes  9x 16 bytes
//	ax, bx    as many bytes as a size of 1 or 4 bytes says
//	cx, dx    the same, then a count, then the values (list, map)
//	ex, fx    the same, then a count, then one constructor and the data of each element (array)
type Code byte

// The constructors.
const (
	codeDescribed  Code = 0x00
	codeNull       Code = 0x40
	codeTrue       Code = 0x41
	codeFalse      Code = 0x42
	codeUint0      Code = 0x43
	codeUlong0     Code = 0x44
	codeList0      Code = 0x45
	codeUbyte      Code = 0x50
	codeByte       Code = 0x51
	codeSmallUint  Code = 0x52
	codeSmallUlong Code = 0x53
	codeSmallInt   Code = 0x54
	codeSmallLong  Code = 0x55
	codeBoolean    Code = 0x56
	codeUshort     Code = 0x60
	codeShort      Code = 0x61
	codeUint       Code = 0x70
	codeInt        Code = 0x71
	codeFloat      Code = 0x72
	codeChar       Code = 0x73
	codeDecimal32  Code = 0x74
	codeUlong      Code = 0x80
	codeLong       Code = 0x81
	codeDouble     Code = 0x82
	codeTimestamp  Code = 0x83
	codeDecimal64  Code = 0x84
	codeDecimal128 Code = 0x94
	codeUUID       Code = 0x98
	codeBinary8    Code = 0xa0
	codeString8    Code = 0xa1
	codeSymbol8    Code = 0xa3
	codeBinary32   Code = 0xb0
	codeString32   Code = 0xb1
	codeSymbol32   Code = 0xb3
	codeList8      Code = 0xc0
	codeMap8       Code = 0xc1
	codeList32     Code = 0xd0
	codeMap32      Code = 0xd1
	codeArray8     Code = 0xe0
	codeArray32    Code = 0xf0
)

const (
	wide            Code = 0x10 // from the 8-bit to the 32-bit form of a variable, compound or array code
	zeroWidthLayout Code = 0x4  // the upper half of the codes without data
)

// Descriptor codes of the composite types (2.7, 2.8, 3.4, 3.5, 4.5, 5.3).
const (
	descOpen               = 0x10
	descBegin              = 0x11
	descAttach             = 0x12
	descFlow               = 0x13
	descTransfer           = 0x14
	descDisposition        = 0x15
	descDetach             = 0x16
	descEnd                = 0x17
	descClose              = 0x18
	descError              = 0x1d
	descReceived           = 0x23
	descAccepted           = 0x24
	descRejected           = 0x25
	descReleased           = 0x26
	descModified           = 0x27
	descSource             = 0x28
	descTarget             = 0x29
	descCoordinator        = 0x30
	descMechanisms         = 0x40
	descInit               = 0x41
	descChallenge          = 0x42
	descResponse           = 0x43
	descOutcome            = 0x44
	descUnknown     uint64 = 1 << 63 // a symbolic descriptor that is not of this list
)

// descriptorNamed is the code of a symbolic descriptor, which a peer may use in place of the code.
func descriptorNamed(s Symbol) uint64 {
	switch s {
	case "amqp:open:list":
		return descOpen
	case "amqp:begin:list":
		return descBegin
	case "amqp:attach:list":
		return descAttach
	case "amqp:flow:list":
		return descFlow
	case "amqp:transfer:list":
		return descTransfer
	case "amqp:disposition:list":
		return descDisposition
	case "amqp:detach:list":
		return descDetach
	case "amqp:end:list":
		return descEnd
	case "amqp:close:list":
		return descClose
	case "amqp:error:list":
		return descError
	case "amqp:received:list":
		return descReceived
	case "amqp:accepted:list":
		return descAccepted
	case "amqp:rejected:list":
		return descRejected
	case "amqp:released:list":
		return descReleased
	case "amqp:modified:list":
		return descModified
	case "amqp:source:list":
		return descSource
	case "amqp:target:list":
		return descTarget
	case "amqp:coordinator:list":
		return descCoordinator
	case "amqp:sasl-mechanisms:list":
		return descMechanisms
	case "amqp:sasl-init:list":
		return descInit
	case "amqp:sasl-challenge:list":
		return descChallenge
	case "amqp:sasl-response:list":
		return descResponse
	case "amqp:sasl-outcome:list":
		return descOutcome
	case "amqp:header:list":
		return uint64(KindHeader)
	case "amqp:delivery-annotations:map":
		return uint64(KindDeliveryAnnotations)
	case "amqp:message-annotations:map":
		return uint64(KindMessageAnnotations)
	case "amqp:properties:list":
		return uint64(KindProperties)
	case "amqp:application-properties:map":
		return uint64(KindApplicationProperties)
	case "amqp:data:binary":
		return uint64(KindData)
	case "amqp:amqp-sequence:list":
		return uint64(KindSequence)
	case "amqp:amqp-value:*":
		return uint64(KindValue)
	case "amqp:footer:map":
		return uint64(KindFooter)
	}
	return descUnknown
}
