package rules

// Code is one kind of finding. Its ID is stable: documents and scripts refer
// to it. An ID that begins with E is an error, one with W a warning.
type Code struct {
	ID      string
	Meaning string // in one line
}

// table holds every code in the order in which they are defined below.
var table []*Code

// Codes lists every kind of finding.
func Codes() []Code {
	list := make([]Code, len(table))
	for i, c := range table {
		list[i] = *c
	}
	return list
}

func define(id, meaning string) *Code {
	c := &Code{id, meaning}
	table = append(table, c)
	return c
}

// Errors of the file as a whole.
var (
	errEncoding       = define("E001", "the file is not UTF-8")
	errNUL            = define("E002", "the file holds a NUL byte")
	errLongLine       = define("E003", "the line is too long")
	errSection        = define("E004", "there is no such section")
	errSectionTwice   = define("E005", "a section stands twice in a file")
	errNoSection      = define("E006", "a statement stands above the first section")
	errHead           = define("E007", "a section head does not stand alone on its line")
	errSectionMissing = define("E008", "a section that must be there is missing")
	errEndMissing     = define("E009", "the file does not close with [end], which the service requires")
	errAfterEnd       = define("E010", "a statement stands behind [end]")
	errStatement      = define("E011", "the line is no statement of its section")
)

// Errors in a line of [rules].
var (
	errMethod      = define("E012", "there is no such method")
	errUnclosed    = define("E013", "a bracket is not closed")
	errBrackets    = define("E014", "the rule has too few or too many brackets")
	errOutside     = define("E015", "there is text outside the brackets")
	errQuote       = define("E016", "a quoted value is not closed, or holds something that quotes do not allow")
	errName        = define("E017", "this is not the name of a parameter")
	errOperator    = define("E018", "the condition has no operator, or one that does not exist")
	errNoValue     = define("E019", "the condition lacks a value")
	errNameTwice   = define("E020", "a parameter stands twice in a rule")
	errJoint       = define("E021", "{~} stands elsewhere than at the end of a value")
	errPlus        = define("E022", "+ stands among other values")
	errReversed    = define("E023", "a range is reversed")
	errAddress     = define("E024", "this is not an address, a range of addresses, a pattern or a block")
	errInteger     = define("E025", "this is not an integer of 64 bits")
	errWordInRange = define("E026", "a word stands in a list of ranges")
	errConditions  = define("E027", "the rule has too many conditions")
	errDictUnknown = define("E028", "there is no such word list")
	errWord        = define("E029", "there is no such threshold or outcome")
	errWordTwice   = define("E030", "a threshold or an outcome stands twice in a rule")
	errNumber      = define("E031", "this is not a whole number")
	errRange       = define("E032", "the number is out of range")
	errMissing     = define("E033", "the rule lacks a threshold or an outcome")
	errCountZero   = define("E034", "count=0 in a rule that counts")
	errBaseZero    = define("E035", "base=0, or no base, in a base rule")
	errBucket      = define("E036", "burst × time is beyond what can be counted exactly")
	errReturnTwice = define("E037", "two rules have the same return")
	errNoResult    = define("E038", "there is no such entry in [result]")
	errChoice      = define("E039", "the word does not have this value")
	errNoRules     = define("E040", "there is no rule")
)

// Errors in a line of [dicts] and [settings].
var (
	errDictName   = define("E041", "this is not the name of a word list, or its path is missing")
	errDictTwice  = define("E042", "a word list is declared twice")
	errDictRead   = define("E043", "a word list cannot be read")
	errSetting    = define("E044", "there is no such setting")
	errSettingTwo = define("E045", "a setting stands twice")
	errZone       = define("E046", "there is no such time zone")
)

// Errors in a line of [result].
var (
	errEntryNumber  = define("E051", "this is not the number of an entry")
	errEntryTwice   = define("E052", "an entry stands twice")
	errEntryMissing = define("E053", "entry 0 or 1 is missing")
	errJSON         = define("E054", "the entry is not a JSON object")
	errFieldType    = define("E055", "a field has a value of the wrong type")
	errFieldTwice   = define("E056", "a field stands twice in an entry")
	errFieldRange   = define("E057", "the value of a field is out of range")
	errHeader       = define("E058", "a header cannot be sent")
)

// Errors in a line of [params] and [routes].
var (
	errParamTwice   = define("E061", "a parameter is declared twice")
	errSource       = define("E062", "there is no such source")
	errSourceWords  = define("E063", "a source has too few or too many words, or ones that it cannot have")
	errPrefix       = define("E064", "this is not the length of a network prefix")
	errGatewayNames = define("E065", "two parameters have the same gateway header")
	errRouteMethod  = define("E066", "this is not an HTTP method")
	errPattern      = define("E067", "this is not the pattern of a path")
	errRouteName    = define("E068", "a name stands twice in a route")
	errRouteTwice   = define("E069", "two routes are equal")
	errConstant     = define("E070", "this is not a constant of a route")
)

// errMore counts what is not shown.
var errMore = define("E099", "there are more errors than are shown")

// Warnings.
var (
	warnOldSpelling = define("W001", "an old spelling")
	warnNoUse       = define("W002", "the method has no use for this word")
	warnDictUnused  = define("W003", "no rule uses the word list")
	warnZone        = define("W004", "a rule counts by calendar days, and no time zone is stated")
	warnUnreachable = define("W005", "the rule can never be reached")
	warnNoRefusal   = define("W006", "the rule never refuses")
	warnLargeLeak   = define("W007", "one identity of the leak rule may cost much memory")
	warnField       = define("W008", "there is no such field")
	warnNoEffect    = define("W009", "something has no effect")
	warnLooksLike   = define("W010", "a word looks like something else")
	warnHostBits    = define("W011", "a block has bits beyond its prefix")
	warnNoCondition = define("W012", "the rule has no condition")
	warnParamUnused = define("W013", "no rule uses the parameter")
	warnNoSupply    = define("W014", "nothing supplies the parameter")
	warnClientSets  = define("W015", "a client can set what the gateway is asked for")
	warnHead        = define("W016", "HEAD counts as GET")
	warnSuccess     = define("W017", "a refusal is answered with a status of success")
	warnHeaderSize  = define("W018", "the headers of an entry are large")
	warnRenumbered  = define("W019", "the number of a rule has changed its meaning")
	warnDerived     = define("W020", "what doors make of a request never has this value")
	warnDictEntry   = define("W021", "an entry of a word list looks like something else")
	warnMore        = define("W099", "there are more warnings than are shown")
)
