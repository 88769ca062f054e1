package rules

// Code is a kind of finding. IDs are stable, so that documents and scripts can
// refer to them. Errors have IDs that begin with E, warnings with W.
type Code struct {
	ID      string
	Meaning string // one line
}

// codes has every code in the order of the definitions below.
var codes []*Code

// Codes returns every kind of finding, errors before warnings.
func Codes() []Code {
	list := make([]Code, len(codes))
	for i, c := range codes {
		list[i] = *c
	}
	return list
}

// severity returns the severity of findings of this kind.
func (c *Code) severity() Severity {
	if c.ID[0] == 'W' {
		return Warning
	}
	return Error
}

func define(id, meaning string) *Code {
	c := &Code{id, meaning}
	codes = append(codes, c)
	return c
}

// Errors of the file as a whole.
var (
	errEncoding       = define("E001", "the file is not UTF-8")
	errNUL            = define("E002", "the file contains a NUL byte")
	errLongLine       = define("E003", "the line is too long")
	errSection        = define("E004", "unknown section")
	errSectionTwice   = define("E005", "a section occurs twice in a file")
	errNoSection      = define("E006", "a statement precedes the first section")
	errHead           = define("E007", "text after a section head")
	errSectionMissing = define("E008", "a required section is missing")
	errEndMissing     = define("E009", "the file does not end with [end], which the service requires")
	errAfterEnd       = define("E010", "a statement follows [end]")
	errStatement      = define("E011", "the line is not a statement of its section")
)

// Errors in a line of [rules].
var (
	errMethod      = define("E012", "unknown method")
	errUnclosed    = define("E013", "a bracket is not closed")
	errBrackets    = define("E014", "the rule has too few or too many brackets")
	errOutside     = define("E015", "text outside the brackets")
	errQuote       = define("E016", "a quoted value is not closed or is malformed")
	errName        = define("E017", "invalid parameter name")
	errOperator    = define("E018", "the condition has no operator, or an unknown one")
	errNoValue     = define("E019", "a value is missing")
	errNameTwice   = define("E020", "a parameter occurs twice in a rule")
	errJoint       = define("E021", "{~} is not at the end of a value")
	errPlus        = define("E022", "+ is combined with other values")
	errReversed    = define("E023", "a range is reversed")
	errAddress     = define("E024", "invalid address, address range, pattern or block")
	errInteger     = define("E025", "not a 64-bit integer")
	errWordInRange = define("E026", "a word in a list of ranges")
	errConditions  = define("E027", "the rule has too many conditions")
	errDictUnknown = define("E028", "unknown word list")
	errWord        = define("E029", "unknown or misplaced threshold or outcome")
	errWordTwice   = define("E030", "a threshold or an outcome occurs twice in a rule")
	errNumber      = define("E031", "not a whole number")
	errRange       = define("E032", "a number is out of range")
	errMissing     = define("E033", "a required threshold or outcome is missing")
	errCountZero   = define("E034", "count=0 in a rule that counts")
	errBaseZero    = define("E035", "base=0, or no base, in a base rule")
	errBucket      = define("E036", "burst × time is too large to be counted exactly")
	errReturnTwice = define("E037", "two rules have the same return")
	errNoResult    = define("E038", "unknown [result] entry")
	errChoice      = define("E039", "invalid value of a word")
	errNoRules     = define("E040", "the rule set has no rules")
	errRuleName    = define("E047", "two rules have the same name")
	errInstant     = define("E048", "invalid date or time")
	errNeverActive = define("E049", "until is not after since")
)

// Errors in a line of [dicts] and [settings].
var (
	errDictName     = define("E041", "invalid word list name, or its path is missing")
	errDictTwice    = define("E042", "a word list is declared twice")
	errDictRead     = define("E043", "a word list cannot be read")
	errSetting      = define("E044", "unknown setting")
	errSettingTwice = define("E045", "a setting occurs twice")
	errZone         = define("E046", "unknown or missing time zone")
)

// Errors in a line of [result].
var (
	errEntryNumber  = define("E051", "invalid entry number")
	errEntryTwice   = define("E052", "an entry number occurs twice")
	errEntryMissing = define("E053", "entry 0 or 1 is missing")
	errJSON         = define("E054", "the entry is not a valid JSON object")
	errFieldType    = define("E055", "a field has a value of the wrong type")
	errFieldTwice   = define("E056", "a field occurs twice in an entry")
	errFieldRange   = define("E057", "a field value is out of range")
	errHeader       = define("E058", "the header cannot be sent")
)

// Errors in a line of [params] and [routes].
var (
	errParamTwice   = define("E061", "a parameter is declared twice")
	errSource       = define("E062", "unknown source")
	errSourceWords  = define("E063", "a source has missing, extra or invalid arguments")
	errPrefix       = define("E064", "invalid prefix length")
	errGatewayNames = define("E065", "two parameters have the same gateway header")
	errRouteMethod  = define("E066", "invalid HTTP method")
	errPattern      = define("E067", "invalid path pattern")
	errRouteName    = define("E068", "a name occurs twice in a route")
	errRouteTwice   = define("E069", "two routes are equal")
	errConstant     = define("E070", "invalid route constant")
)

// Errors in a line of [tables], in the file of a table, and in thresholds that depend
// on the request.
var (
	errTableName    = define("E071", "invalid table name, or its path is missing")
	errTableTwice   = define("E072", "a table is declared twice")
	errTableRead    = define("E073", "a table cannot be read")
	errTableText    = define("E074", "a table is not a valid CSV file")
	errColumnName   = define("E075", "invalid or repeated column name in a table")
	errRowLength    = define("E076", "a row of a table has too few or too many cells")
	errRowKey       = define("E077", "a row of a table has no key, or the key of another row")
	errCell         = define("E078", "a cell is not a value of the threshold that uses it")
	errTableUnknown = define("E079", "unknown table or column")
	errVarying      = define("E080", "invalid threshold from a table or a parameter")
	errCalendar     = define("E081", "a window has no such beginning")
)

// Errors in rules that learn how a request ended.
var (
	errResponse = define("E091", "a parameter of the response where none is known")
	errHeld     = define("E092", "a hold rule has a threshold of other methods")
	errLease    = define("E093", "no part of this limit can be held in advance")
)

// errMore is followed by the number of errors that are not shown.
var errMore = define("E099", "more errors than are shown")

// Warnings.
var (
	warnOldSpelling = define("W001", "deprecated spelling")
	warnNoUse       = define("W002", "the word has no effect with this method")
	warnDictUnused  = define("W003", "unused word list")
	warnZone        = define("W004", "a rule counts by calendar days without a stated time zone")
	warnUnreachable = define("W005", "the rule is unreachable")
	warnNoRefusal   = define("W006", "the rule never refuses")
	warnLargeLeak   = define("W007", "a leak rule may need much memory per identity")
	warnField       = define("W008", "unknown field")
	warnNoEffect    = define("W009", "no effect")
	warnLooksLike   = define("W010", "a word looks like a mistake")
	warnHostBits    = define("W011", "the block has host bits set")
	warnNoCondition = define("W012", "the rule has no condition")
	warnParamUnused = define("W013", "unused parameter")
	warnNoSupply    = define("W014", "nothing supplies the parameter")
	warnClientSets  = define("W015", "clients can set a parameter that the gateway derives")
	warnHead        = define("W016", "HEAD is treated as GET")
	warnSuccess     = define("W017", "a refusal has a success status")
	warnHeaderSize  = define("W018", "the headers of an entry are large")
	warnRenumbered  = define("W019", "the number of a rule changed its meaning")
	warnDerived     = define("W020", "a derived parameter never has this value")
	warnDictEntry   = define("W021", "a word list entry looks like a mistake")
	warnOver        = define("W030", "the rule is over")
	warnNoConstant  = define("W040", "no route sets the parameter to this value")
	warnRouteDoor   = define("W041", "a route sets an unknown door")
	warnOmittable   = define("W042", "clients can leave out the only parameter that identifies them")
	warnClientCost  = define("W043", "clients can set the cost")
	warnClientAllow = define("W044", "clients can set the only parameter that allows them")
	warnInvented    = define("W045", "each value that a client invents has a limit of its own")
	warnHashed      = define("W046", "a hashed parameter never has this value")
	warnAbsent      = define("W047", "a negated condition does not hold without the parameter")
	warnUnreadFrom  = define("W048", "a source is never read")
	warnByUncounted = define("W060", "the limit depends on a parameter that is not counted by")
	warnTableUnused = define("W061", "unused table")
	warnLongWait    = define("W062", "gateways do not wait that long by default")
	warnLockOut     = define("W063", "refused requests lock an identity out")
	warnClientLimit = define("W064", "clients can set the limit")
	warnSmallLease  = define("W065", "the part of a limit to hold in advance is less than four hits")
	warnShortBan    = define("W066", "a ban ends before its window does")
	warnUnlimitKey  = define("W067", "clients can choose to have no limit")
	warnNoReport    = define("W070", "no gateway reports how a request ended")
	warnShortHold   = define("W071", "holds end before usual requests do")
	warnNoHold      = define("W072", "requests under way are not counted by their outcome yet")
	warnSameUse     = define("W073", "two estimates become the same number of hits")
	warnMore        = define("W099", "more warnings than are shown")
)
