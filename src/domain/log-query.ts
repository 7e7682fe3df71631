import type { LogLevel, LogType } from "../contract/logs/log.ts";

/**
 * The query language of log searches, shared by the API, the console and the command line: words, `"phrases"`, `field:value`,
 * `field:a,b` and `-` before a term to exclude it. A line must match the text of all terms and one value of each field. Case
 * does not matter.
 */
export interface LogQuery {
  /** Levels that pass. null: all. */
  levels: LogLevel[] | null;
  sources: LogType[] | null;
  streams: string[] | null;
  /** Parts of the message, all of which it contains. */
  texts: string[];
  notTexts: string[];
  /** Names or ids. */
  deployments: Matches;
  /** Numbers, or the beginnings of ids. */
  revisions: Matches;
  /** Parts of replica ids. */
  replicas: Matches;
  /** Ids that the message contains. */
  runs: Matches;
}

/** A line matches one value of `any`, unless that is empty, and no value of `none`. */
export interface Matches {
  any: string[];
  none: string[];
}

/** One term of a query, with its position for errors and for programs that change it. */
export interface LogTerm {
  /** null: text. */
  field: LogField | null;
  values: string[];
  isNegated: boolean;
  /** Where the term starts and ends in the query, from 0. */
  from: number;
  to: number;
}

export const logFields = ["level", "deployment", "revision", "replica", "source", "stream", "run"] as const;
export type LogField = (typeof logFields)[number];

/** The limits bound the work for each line that the server reads. */
const logQueryLengthMax = 1_000;
const logTermsMax = 20;

/** The query is wrong at `position`, counted in characters from 1. */
export class LogQueryError extends Error {
  override readonly name = "LogQueryError";
  readonly position: number;

  constructor(because: string, position: number) {
    super(because);
    this.position = position;
  }
}

/** The contract's values, repeated because its schemas would load with the console. Least severe first. */
export const logLevelNames: readonly LogLevel[] = ["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"];
const sources: readonly LogType[] = ["build", "deploy"];
const streams = ["stdout", "stderr"];
const levelAliases: Record<string, LogLevel> = { WARN: "WARNING", FATAL: "CRITICAL" };

/** Parses a query. An empty one matches every line. @throws LogQueryError */
export function parseLogQuery(text: string): LogQuery {
  const terms = logTermsOf(text);
  const of = (field: LogField | null, isNegated: boolean) =>
    terms.filter((term) => term.field === field && term.isNegated === isNegated);
  const matches = (field: LogField): Matches => ({
    any: of(field, false).flatMap(({ values }) => values),
    none: of(field, true).flatMap(({ values }) => values),
  });
  const chosen = <T>(field: LogField, all: readonly T[], read: (term: LogTerm) => T[]): T[] | null => {
    const [some, without] = [of(field, false), of(field, true)];
    if (some.length + without.length === 0) return null;
    const named = some.length === 0 ? all : some.flatMap(read);
    const excluded = without.flatMap(read);
    return all.filter((one) => named.includes(one) && !excluded.includes(one));
  };
  return {
    levels: chosen("level", logLevelNames, levelsOf),
    sources: chosen("source", sources, (term) => wordsOf(term, sources)),
    streams: chosen("stream", streams, (term) => wordsOf(term, streams)),
    texts: of(null, false).flatMap(({ values }) => values),
    notTexts: of(null, true).flatMap(({ values }) => values),
    deployments: matches("deployment"),
    revisions: matches("revision"),
    replicas: matches("replica"),
    runs: matches("run"),
  };
}

/** Returns the named levels. `>=warning` names a level and all above it. */
function levelsOf({ values, from }: LogTerm): LogLevel[] {
  return values.flatMap((value) => {
    const isLeast = value.startsWith(">=");
    const name = (isLeast ? value.slice(2) : value).toUpperCase();
    const index = logLevelNames.indexOf(levelAliases[name] ?? (name as LogLevel));
    if (index < 0) throw unknownValue("level", value, logLevelNames, from);
    return isLeast ? logLevelNames.slice(index) : logLevelNames.slice(index, index + 1);
  });
}

function wordsOf<const T extends string>({ field, values, from }: LogTerm, known: readonly T[]): T[] {
  return values.map((value) => {
    const found = known.find((one) => one === value.toLowerCase());
    if (found === undefined) throw unknownValue(field ?? "", value, known, from);
    return found;
  });
}

function unknownValue(field: string, value: string, known: readonly string[], from: number): LogQueryError {
  const names = known.map((one) => one.toLowerCase()).join(", ");
  return new LogQueryError(`'${value}' is not a ${field}. Use one of ${names}.`, from + 1);
}

const fieldStart = /([A-Za-z_][\w.-]*):/y;
const space = /\s/;

/** Returns the terms of a query in their order. @throws LogQueryError */
export function logTermsOf(text: string): LogTerm[] {
  if (text.length > logQueryLengthMax)
    throw new LogQueryError(`A query has at most ${logQueryLengthMax} characters.`, logQueryLengthMax + 1);
  const terms: LogTerm[] = [];
  let at = 0;
  while (at < text.length) {
    if (space.test(text[at] as string)) {
      at += 1;
      continue;
    }
    const term = readTerm(text, at);
    if (terms.push(term) > logTermsMax) throw new LogQueryError(`A query has at most ${logTermsMax} terms.`, at + 1);
    at = term.to;
  }
  return terms;
}

function readTerm(text: string, from: number): LogTerm {
  const isNegated = text[from] === "-" && from + 1 < text.length && !space.test(text[from + 1] as string);
  let at = isNegated ? from + 1 : from;
  fieldStart.lastIndex = at;
  const name = fieldStart.exec(text)?.[1];
  if (name === undefined) {
    const { value, to } = readValue(text, at, "word");
    if (value === "") throw new LogQueryError("The text is empty.", at + 1);
    return { field: null, values: [value], isNegated, from, to };
  }
  const field = logFields.find((one) => one === name.toLowerCase());
  if (field === undefined) {
    const word = readValue(text, at, "word").value;
    throw new LogQueryError(
      `There is no field '${name}'. Fields are ${logFields.join(", ")}. To search for this text, quote it: "${word}".`,
      at + 1,
    );
  }
  at += name.length + 1;
  const values: string[] = [];
  for (;;) {
    const { value, to } = readValue(text, at, "list");
    if (value === "") throw new LogQueryError(`'${field}:' needs a value.`, at + 1);
    values.push(value);
    at = to;
    if (text[at] !== ",") return { field, values, isNegated, from, to: at };
    at += 1;
  }
}

/** Reads a quoted or bare value. Within quotes, a backslash keeps the next quote or backslash. */
function readValue(text: string, from: number, form: "word" | "list"): { value: string; to: number } {
  if (text[from] !== '"') {
    let to = from;
    while (to < text.length && !space.test(text[to] as string) && !(form === "list" && text[to] === ",")) to += 1;
    return { value: text.slice(from, to), to };
  }
  let value = "";
  for (let at = from + 1; at < text.length; at += 1) {
    const character = text[at] as string;
    if (character === '"') return { value, to: at + 1 };
    const isEscape = character === "\\" && (text[at + 1] === '"' || text[at + 1] === "\\");
    if (isEscape) at += 1;
    value += text[at];
  }
  throw new LogQueryError("The quote that starts here has no end.", from + 1);
}

/** Returns a value as a term contains it, quoted where needed. */
export const quoteLogValue = (value: string): string =>
  /^[^\s",:-][^\s",:]*$/.test(value) ? value : `"${value.replaceAll(/["\\]/g, "\\$&")}"`;

/** Returns the query with `field:value` added, or without it if it is there. Values of one field share a term. */
export function toggleLogValue(text: string, field: LogField, value: string, isNegated = false): string {
  const same = (one: string) => one.toLowerCase() === value.toLowerCase();
  const term = logTermsOf(text).find((one) => one.field === field && one.isNegated === isNegated);
  const write = (values: string[]) => `${isNegated ? "-" : ""}${field}:${values.map(quoteLogValue).join(",")}`;
  if (term === undefined) return `${text.trim()} ${write([value])}`.trim();
  const rest = term.values.filter((one) => !same(one));
  const values = rest.length === term.values.length ? [...rest, value] : rest;
  const replaced = values.length === 0 ? "" : write(values);
  return [text.slice(0, term.from).trim(), replaced, text.slice(term.to).trim()].filter(Boolean).join(" ");
}
