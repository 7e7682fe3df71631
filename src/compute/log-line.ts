export type LogLevel = "DEBUG" | "INFO" | "WARNING" | "ERROR" | "CRITICAL";

/** One line of output as a user should read it. */
export interface LogLine {
  level: LogLevel;
  message: string;
  /** Given by the line itself. */
  timestamp?: Date;
}

/**
 * Finds level, time and text of a line an agent server wrote: a JSON object as structured loggers print them (winston,
 * pino, structlog), or text that says its level among its first words. Anything else is INFO.
 */
export function readLogLine(text: string): LogLine {
  const line = text.replace(terminalCodes, "").trimEnd();
  return (line.startsWith("{") ? readJsonLine(line) : undefined) ?? readPlainLine(line);
}

function readJsonLine(line: string): LogLine | undefined {
  let fields: unknown;
  try {
    fields = JSON.parse(line);
  } catch {
    return undefined;
  }
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
    message: [...said, ...rest].join(" "),
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

/** A word is a level when the line begins with it, when it is in brackets or when it is written in capitals. */
function saysLevel(line: string, word: string): boolean {
  return line.toLowerCase().startsWith(word.toLowerCase()) || line.includes(`[${word}]`) || word === word.toUpperCase();
}

/** Names of the usual loggers, and pino's numbers. */
function readLevel(value: unknown): LogLevel {
  if (typeof value === "number") {
    if (value >= 60) return "CRITICAL";
    if (value >= 50) return "ERROR";
    if (value >= 40) return "WARNING";
    return value >= 30 ? "INFO" : "DEBUG";
  }
  const name = String(value).toLowerCase();
  if (/^(fatal|critical|crit|panic|alert|emerg)/.test(name)) return "CRITICAL";
  if (name.startsWith("err")) return "ERROR";
  if (name.startsWith("warn")) return "WARNING";
  return /^(debug|trace|silly|verbose)/.test(name) ? "DEBUG" : "INFO";
}

/** Years of five digits, and those before 1970, are no times of log lines, and not everybody can read them. */
const endOfYear9999Ms = 253_402_300_799_999;

/** ISO text, or seconds or milliseconds since 1970: the two cannot be mixed up before the year 5138. */
function readTime(value: unknown): Date | undefined {
  const date =
    typeof value === "number"
      ? new Date(value < 1e11 ? value * 1_000 : value)
      : new Date(typeof value === "string" ? value : "");
  return date.getTime() >= 0 && date.getTime() <= endOfYear9999Ms ? date : undefined;
}

type Fields = Record<string, unknown>;

// biome-ignore lint/suspicious/noControlCharactersInRegex: colours of a terminal are what is removed
const terminalCodes = /\u001b\[[0-9;]*[A-Za-z]/g;
