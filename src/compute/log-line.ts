export type LogLevel = "DEBUG" | "INFO" | "WARNING" | "ERROR" | "CRITICAL";

/** One line of output in the form that users read. */
export interface LogLine {
  level: LogLevel;
  message: string;
  /** Time from the line itself. */
  timestamp?: Date;
}

/**
 * Each line costs time and memory, however short it is, so readers count it as at least this many bytes. Otherwise an agent that
 * writes lines of one byte would have 200,000 of them read without a break.
 */
export const lineCostBytes = 256;

/**
 * Parses level, time and text of a line that an agent server wrote: either a JSON object from a structured logger
 * (winston, pino, structlog), or text with the level among its first words. The default level is INFO.
 */
export function readLogLine(text: string): LogLine {
  const line = text.replace(terminalCodes, "").trimEnd();
  return (line.startsWith("{") ? readJsonLine(line) : undefined) ?? readPlainLine(line);
}

/** Returns the lines of what an agent server wrote, each cut to a readable length: a record in JSON can have a whole traceback. */
export const readableLines = (text: string): string[] =>
  readLogLine(text)
    .message.split("\n")
    .map((line) => line.slice(0, readableCharsMax));

/** Thirty lines must fit into a status message. */
const readableCharsMax = 1_000;

function readJsonLine(line: string): LogLine | undefined {
  // A refusal by the parser takes twenty times as long, and lists in lists a hundred times as long as text.
  if (!line.endsWith("}") || isDeep(line)) return undefined;
  try {
    return readFields(JSON.parse(line));
  } catch {
    // It is no JSON, or is nested more deeply than `JSON.stringify` can write.
    return undefined;
  }
}

/** Returns whether brackets nest more deeply than those of any logger. Brackets inside of strings count as well. */
function isDeep(line: string): boolean {
  let depth = 0;
  for (let at = 0; at < line.length; at += 1) {
    const code = line.charCodeAt(at);
    if (code === openingBracket || code === openingBrace) depth += 1;
    else if (code === closingBracket || code === closingBrace) depth -= 1;
    if (depth > depthMax) return true;
  }
  return false;
}

const [openingBracket, closingBracket, openingBrace, closingBrace] = [91, 93, 123, 125];

const depthMax = 100;

function readFields(fields: unknown): LogLine | undefined {
  if (typeof fields !== "object" || fields === null) return undefined;
  const { level, severity, levelname, timestamp, time, ts, event, message, msg, ...others } = fields as Fields;
  const said = [event, message, msg].filter((value) => typeof value === "string" && value !== "");
  const when = readTime(timestamp ?? time ?? ts);
  if (said.length === 0 && when === undefined && level === undefined) return undefined;
  const rest = Object.entries(others).map(
    ([name, value]) => `${name}=${typeof value === "string" ? value : JSON.stringify(value)}`,
  );
  return {
    level: readLevel(level ?? severity ?? levelname),
    // In JSON the codes are escaped, so that the line itself has none.
    message: [...said, ...rest].join(" ").replace(terminalCodes, ""),
    ...(when === undefined ? {} : { timestamp: when }),
  };
}

function readPlainLine(line: string): LogLine {
  // "2026-01-02 10:00:00,123 [app] ERROR ...", "warn: ...", "TypeError: ...", "Uncaught Error ..."
  const word = /\b(trace|debug|info|notice|warn|warning|error|err|fatal|critical|panic)\b/i.exec(
    line.slice(0, 64),
  )?.[1];
  const isThrown = /^(Uncaught |Unhandled )?[A-Z]\w*(Error|Exception)\b|^Traceback \(most recent call last\)/.test(
    line,
  );
  const level = word !== undefined && saysLevel(line, word) ? readLevel(word) : isThrown ? "ERROR" : "INFO";
  return { level, message: line };
}

/** Tells whether a word is a level: it starts the line, is in brackets, or is in capitals. */
function saysLevel(line: string, word: string): boolean {
  return line.toLowerCase().startsWith(word.toLowerCase()) || line.includes(`[${word}]`) || word === word.toUpperCase();
}

/** Maps the names of common loggers and the numbers of pino to a level. */
function readLevel(value: unknown): LogLevel {
  if (typeof value === "number") {
    if (value >= 60) return "CRITICAL";
    if (value >= 50) return "ERROR";
    if (value >= 40) return "WARNING";
    return value >= 30 ? "INFO" : "DEBUG";
  }
  // A list has a name too, which takes long to write.
  const name = typeof value === "string" ? value.slice(0, 16).toLowerCase() : "";
  if (/^(fatal|critical|crit|panic|alert|emerg)/.test(name)) return "CRITICAL";
  if (name.startsWith("err")) return "ERROR";
  if (name.startsWith("warn")) return "WARNING";
  return /^(debug|trace|silly|verbose)/.test(name) ? "DEBUG" : "INFO";
}

/** Times before 1970 or with five-digit years are not times of log lines, and some readers cannot parse them. */
const endOfYear9999Ms = 253_402_300_799_999;

/** Parses ISO text, or seconds or milliseconds since 1970. The two cannot be confused before the year 5138. */
function readTime(value: unknown): Date | undefined {
  const date =
    typeof value === "number"
      ? new Date(value < 1e11 ? value * 1_000 : value)
      : new Date(typeof value === "string" ? value : "");
  return date.getTime() >= 0 && date.getTime() <= endOfYear9999Ms ? date : undefined;
}

type Fields = Record<string, unknown>;

// biome-ignore lint/suspicious/noControlCharactersInRegex: the pattern matches colour codes of terminals
const terminalCodes = /\u001b\[[0-9;]*[A-Za-z]/g;
