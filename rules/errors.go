package rules

import "github.com/koalagate/koalagate/internal/vocabulary"

// severityOf returns the severity of findings of a kind.
func severityOf(c *vocabulary.Code) Severity {
	if c.ID[0] == 'W' {
		return Warning
	}
	return Error
}

// Errors of the file as a whole.
var (
	errEncoding       = vocabulary.Define("E001", "the file is not UTF-8")
	errNUL            = vocabulary.Define("E002", "the file contains a NUL byte")
	errLongLine       = vocabulary.Define("E003", "the line is too long")
	errSection        = vocabulary.Define("E004", "unknown section")
	errSectionTwice   = vocabulary.Define("E005", "a section occurs twice in a file")
	errNoSection      = vocabulary.Define("E006", "a statement precedes the first section")
	errHead           = vocabulary.Define("E007", "text after a section head")
	errSectionMissing = vocabulary.Define("E008", "a required section is missing")
	errEndMissing     = vocabulary.Define("E009", "the file does not end with [end], which the service requires")
	errAfterEnd       = vocabulary.Define("E010", "a statement follows [end]")
	errStatement      = vocabulary.Define("E011", "the line is not a statement of its section")
)

// Errors in a line of [rules].
var (
	errMethod      = vocabulary.Define("E012", "unknown method")
	errUnclosed    = vocabulary.Define("E013", "a bracket is not closed")
	errBrackets    = vocabulary.Define("E014", "the rule has too few or too many brackets")
	errOutside     = vocabulary.Define("E015", "text outside the brackets")
	errQuote       = vocabulary.Define("E016", "a quoted value is not closed or is malformed")
	errName        = vocabulary.Define("E017", "invalid parameter name")
	errOperator    = vocabulary.Define("E018", "the condition has no operator, or an unknown one")
	errNoValue     = vocabulary.Define("E019", "a value is missing")
	errNameTwice   = vocabulary.Define("E020", "a parameter occurs twice in a rule")
	errJoint       = vocabulary.Define("E021", "{~} is not at the end of a value")
	errPlus        = vocabulary.Define("E022", "+ is combined with other values")
	errReversed    = vocabulary.Define("E023", "a range is reversed")
	errAddress     = vocabulary.Define("E024", "invalid address, address range, pattern or block")
	errInteger     = vocabulary.Define("E025", "not a 64-bit integer")
	errWordInRange = vocabulary.Define("E026", "a word in a list of ranges")
	errConditions  = vocabulary.Define("E027", "the rule has too many conditions")
	errDictUnknown = vocabulary.Define("E028", "unknown word list")
	errWord        = vocabulary.Define("E029", "unknown or misplaced threshold or outcome")
	errWordTwice   = vocabulary.Define("E030", "a threshold or an outcome occurs twice in a rule")
	errNumber      = vocabulary.Define("E031", "not a whole number")
	errRange       = vocabulary.Define("E032", "a number is out of range")
	errMissing     = vocabulary.Define("E033", "a required threshold or outcome is missing")
	errCountZero   = vocabulary.Define("E034", "count=0 in a rule that counts")
	errBaseZero    = vocabulary.Define("E035", "base=0, or no base, in a base rule")
	errBucket      = vocabulary.Define("E036", "burst × time is too large to be counted exactly")
	errReturnTwice = vocabulary.Define("E037", "two rules have the same return")
	errNoResult    = vocabulary.Define("E038", "unknown [result] entry")
	errChoice      = vocabulary.Define("E039", "invalid value of a word")
	errNoRules     = vocabulary.Define("E040", "the rule set has no rules")
	errRuleName    = vocabulary.Define("E047", "two rules have the same name")
	errInstant     = vocabulary.Define("E048", "invalid date or time")
	errNeverActive = vocabulary.Define("E049", "until is not after since")
	errGlobs       = vocabulary.Define("E050", "a condition has too many patterns")
)

// Errors in a line of [dicts] and [settings].
var (
	errDictName     = vocabulary.Define("E041", "invalid word list name, or its path is missing")
	errDictTwice    = vocabulary.Define("E042", "a word list is declared twice")
	errDictRead     = vocabulary.Define("E043", "a word list cannot be read")
	errSetting      = vocabulary.Define("E044", "unknown setting")
	errSettingTwice = vocabulary.Define("E045", "a setting occurs twice")
	errZone         = vocabulary.Define("E046", "unknown or missing time zone")
)

// Errors in a line of [result].
var (
	errEntryNumber  = vocabulary.Define("E051", "invalid entry number")
	errEntryTwice   = vocabulary.Define("E052", "an entry number occurs twice")
	errEntryMissing = vocabulary.Define("E053", "entry 0 or 1 is missing")
	errJSON         = vocabulary.Define("E054", "the entry is not a valid JSON object")
	errFieldType    = vocabulary.Define("E055", "a field has a value of the wrong type")
	errFieldTwice   = vocabulary.Define("E056", "a field occurs twice in an entry")
	errFieldRange   = vocabulary.Define("E057", "a field value is out of range")
	errHeader       = vocabulary.Define("E058", "the header cannot be sent")
)

// Errors in a line of [params] and [routes].
var (
	errParamTwice   = vocabulary.Define("E061", "a parameter is declared twice")
	errSource       = vocabulary.Define("E062", "unknown source")
	errSourceWords  = vocabulary.Define("E063", "a source has missing, extra or invalid arguments")
	errPrefix       = vocabulary.Define("E064", "invalid prefix length")
	errGatewayNames = vocabulary.Define("E065", "two parameters have the same gateway header")
	errRouteMethod  = vocabulary.Define("E066", "invalid HTTP method")
	errPattern      = vocabulary.Define("E067", "invalid path pattern")
	errRouteName    = vocabulary.Define("E068", "a name occurs twice in a route")
	errRouteTwice   = vocabulary.Define("E069", "two routes are equal")
	errConstant     = vocabulary.Define("E070", "invalid route constant")
)

// Errors in a line of [tables], in the file of a table, and in thresholds that depend
// on the request.
var (
	errTableName    = vocabulary.Define("E071", "invalid table name, or its path is missing")
	errTableTwice   = vocabulary.Define("E072", "a table is declared twice")
	errTableRead    = vocabulary.Define("E073", "a table cannot be read")
	errTableText    = vocabulary.Define("E074", "a table is not a valid CSV file")
	errColumnName   = vocabulary.Define("E075", "invalid or repeated column name in a table")
	errRowLength    = vocabulary.Define("E076", "a row of a table has too few or too many cells")
	errRowKey       = vocabulary.Define("E077", "a row of a table has no key, or the key of another row")
	errCell         = vocabulary.Define("E078", "a cell is not a value of the threshold that uses it")
	errTableUnknown = vocabulary.Define("E079", "unknown table or column")
	errVarying      = vocabulary.Define("E080", "invalid threshold from a table or a parameter")
	errCalendar     = vocabulary.Define("E081", "a window has no such beginning")
)

// Errors in rules that learn how a request ended.
var (
	errResponse = vocabulary.Define("E091", "a parameter of the response where none is known")
	errHeld     = vocabulary.Define("E092", "a hold rule has a threshold of other methods")
	errLease    = vocabulary.Define("E093", "no part of this limit can be held in advance")
	errMark     = vocabulary.Define("E094", "a mark has a word that rules which never refuse cannot have")
)

// errMore is followed by the number of errors that are not shown.
var errMore = vocabulary.Define("E099", "more errors than are shown")

// Errors in a line of [tokens], in the file of its keys, and in what refers to it.
var (
	errJWTName    = vocabulary.Define("E101", "invalid token name, or its keys are missing")
	errJWTTwice   = vocabulary.Define("E102", "a token is declared twice")
	errJWTValue   = vocabulary.Define("E103", "invalid value of a word of a token")
	errJWTKeys    = vocabulary.Define("E104", "the keys of a token cannot be read")
	errJWTUnknown = vocabulary.Define("E105", "unknown token")
	errJWTIssuer  = vocabulary.Define("E106", "a token without an issuer")
)

// Errors in a line of [forward].
var (
	errForward      = vocabulary.Define("E111", "the header cannot be forwarded")
	errForwardTwice = vocabulary.Define("E112", "a header is forwarded twice")
	errForwards     = vocabulary.Define("E113", "too many headers are forwarded")
)

// Warnings.
var (
	warnOldSpelling = vocabulary.Define("W001", "deprecated spelling")
	warnNoUse       = vocabulary.Define("W002", "the word has no effect with this method")
	warnDictUnused  = vocabulary.Define("W003", "unused word list")
	warnZone        = vocabulary.Define("W004", "a rule counts by calendar days without a stated time zone")
	warnUnreachable = vocabulary.Define("W005", "the rule is unreachable")
	warnNoRefusal   = vocabulary.Define("W006", "the rule never refuses")
	warnLargeLeak   = vocabulary.Define("W007", "a leak rule may need much memory per identity")
	warnField       = vocabulary.Define("W008", "unknown field")
	warnNoEffect    = vocabulary.Define("W009", "no effect")
	warnLooksLike   = vocabulary.Define("W010", "a word looks like a mistake")
	warnHostBits    = vocabulary.Define("W011", "the block has host bits set")
	warnNoCondition = vocabulary.Define("W012", "the rule has no condition")
	warnParamUnused = vocabulary.Define("W013", "unused parameter")
	warnNoSupply    = vocabulary.Define("W014", "nothing supplies the parameter")
	warnClientSets  = vocabulary.Define("W015", "clients can set a parameter that the gateway derives")
	warnHead        = vocabulary.Define("W016", "HEAD is treated as GET")
	warnSuccess     = vocabulary.Define("W017", "a refusal has a success status")
	warnHeaderSize  = vocabulary.Define("W018", "the headers of an entry are large")
	warnRenumbered  = vocabulary.Define("W019", "the number of a rule changed its meaning")
	warnDerived     = vocabulary.Define("W020", "a derived parameter never has this value")
	warnDictEntry   = vocabulary.Define("W021", "a word list entry looks like a mistake")
	warnOver        = vocabulary.Define("W030", "the rule is over")
	warnNoConstant  = vocabulary.Define("W040", "no route sets the parameter to this value")
	warnRouteDoor   = vocabulary.Define("W041", "a route sets an unknown door")
	warnOmittable   = vocabulary.Define("W042", "clients can leave out the only parameter that identifies them")
	warnClientCost  = vocabulary.Define("W043", "clients can set the cost")
	warnClientAllow = vocabulary.Define("W044", "clients can set the only parameter that allows them")
	warnInvented    = vocabulary.Define("W045", "each value that a client invents has a limit of its own")
	warnHashed      = vocabulary.Define("W046", "a hashed parameter never has this value")
	warnAbsent      = vocabulary.Define("W047", "a negated condition does not hold without the parameter")
	warnUnreadFrom  = vocabulary.Define("W048", "a source is never read")
	warnCapitals    = vocabulary.Define("W049", "a parameter in lower case never has this value")
	warnRouteTrust  = vocabulary.Define("W050", "a path can replace a verified parameter")
	warnByUncounted = vocabulary.Define("W060", "the limit depends on a parameter that is not counted by")
	warnTableUnused = vocabulary.Define("W061", "unused table")
	warnLongWait    = vocabulary.Define("W062", "gateways do not wait that long by default")
	warnLockOut     = vocabulary.Define("W063", "refused requests lock an identity out")
	warnClientLimit = vocabulary.Define("W064", "clients can set the limit")
	warnSmallLease  = vocabulary.Define("W065", "the part of a limit to hold in advance is less than four hits")
	warnShortBan    = vocabulary.Define("W066", "a ban ends before its window does")
	warnUnlimitKey  = vocabulary.Define("W067", "clients can choose to have no limit")
	warnNoInstant   = vocabulary.Define("W068", "a cell of a table is neither a date nor a time")
	warnNoReport    = vocabulary.Define("W070", "no gateway reports how a request ended")
	warnShortHold   = vocabulary.Define("W071", "holds end before usual requests do")
	warnNoHold      = vocabulary.Define("W072", "requests under way are not counted by their outcome yet")
	warnSameUse     = vocabulary.Define("W073", "two estimates become the same number of hits")
	warnUnshared    = vocabulary.Define("W074", "gateways get no share of the limit")
	warnTooSmall    = vocabulary.Define("W075", "a limit is too small for shares of gateways")
	warnAudience    = vocabulary.Define("W081", "a token of any audience is valid")
	warnUnverified  = vocabulary.Define("W082", "no rule refuses requests whose token is invalid")
	warnNoKeys      = vocabulary.Define("W083", "no rule says what happens while tokens cannot be verified")
	warnJWTUnused   = vocabulary.Define("W084", "unused token")
	warnKeySkipped  = vocabulary.Define("W085", "a key is not in use")
	warnRawToken    = vocabulary.Define("W086", "a parameter has a token as it is")
	warnForwardAdds = vocabulary.Define("W091", "a forwarded header is added to the client's own")
	warnMore        = vocabulary.Define("W099", "more warnings than are shown")
)
