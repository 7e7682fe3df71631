import { stripVTControlCharacters } from "node:util";
import type { CliContext, Output } from "../context.ts";
import type { AsStarted } from "./started-as.ts";

export type Style = "bold" | "dim" | "red" | "green" | "yellow" | "cyan";
export type Paint = (style: Style, text: string) => string;

export interface Terminal {
  /** Writes data to stdout, followed by a line break. */
  print(text: string): void;
  /** Writes a message to stderr, followed by a line break. Commands in it are written as the user started this one. */
  say(text: string): void;
  /** Writes commands in a text as the user started this one: with or without `npx`. */
  asStarted: AsStarted;
  /** Writes a temporary line to stderr that the next output replaces. Only if `isLive`. */
  draw(text: string): void;
  erase(): void;
  /** Columns of stderr. The value may change while the program runs. */
  width(): number;
  paintOut: Paint;
  paintErr: Paint;
  /** Whether a line on stderr can be redrawn. */
  isLive: boolean;
  /** Whether a user can answer a prompt. */
  isInteractive: boolean;
}

const codes: Record<Style, [number, number]> = {
  bold: [1, 22],
  dim: [2, 22],
  red: [31, 39],
  green: [32, 39],
  yellow: [33, 39],
  cyan: [36, 39],
};

/** Creates the terminal, with capabilities detected once. Respects NO_COLOR, FORCE_COLOR, CI and TERM=dumb. */
export function createTerminal(
  context: Pick<CliContext, "env" | "stdin" | "stdout" | "stderr">,
  noColor: boolean,
  asStarted: AsStarted = (text) => text,
): Terminal {
  const { env, stdout, stderr } = context;
  const isPlain = env.TERM === "dumb" || isSet(env.CI);
  const paint = (stream: Output): Paint => {
    if (!hasColor(stream, env, noColor)) return (_, text) => text;
    return (style, text) => `\u001b[${codes[style][0]}m${text}\u001b[${codes[style][1]}m`;
  };
  let isDrawn = false;
  const erase = () => {
    if (isDrawn) stderr.write("\r\u001b[2K");
    isDrawn = false;
  };
  return {
    print(text) {
      erase();
      // A file or another program gets the data as it is.
      stdout.write(`${stdout.isTTY === true ? escaped(text) : text}\n`);
    },
    say(text) {
      erase();
      stderr.write(`${escaped(asStarted(text))}\n`);
    },
    asStarted,
    draw(text) {
      stderr.write(`\r\u001b[2K${escaped(text)}`);
      isDrawn = true;
    },
    erase,
    width: () => stderr.columns || 100,
    paintOut: paint(stdout),
    paintErr: paint(stderr),
    isLive: stderr.isTTY === true && !isPlain,
    isInteractive: !isPlain && stderr.isTTY === true && context.stdin.isTTY === true,
  };
}

function hasColor(stream: Output, env: CliContext["env"], noColor: boolean): boolean {
  if (noColor || (env.NO_COLOR ?? "") !== "") return false; // no-color.org: set and not empty
  if (env.FORCE_COLOR !== undefined) return isSet(env.FORCE_COLOR) || env.FORCE_COLOR === "";
  return stream.isTTY === true && env.TERM !== "dumb" && !isSet(env.CI);
}

function isSet(value: string | undefined): boolean {
  return value !== undefined && !["", "0", "false"].includes(value.toLowerCase());
}

/** Every control character and change of direction but tabs, line breaks and the codes of `paint`. */
const controls =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what must not pass.
  /\u001b(?!\[(?:1|2|22|3[12369])m)|[\u0000-\u0008\u000b-\u001a\u001c-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g;

/** Shows control characters as JSON does. In a JSON document they mean the same as before. */
const escaped = (text: string): string =>
  text.replace(controls, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`);

/**
 * Removes control sequences (cursor moves, titles, links) from text of other origin, such as log lines, messages and names. Keeps
 * tabs and line breaks.
 */
export function harmless(text: string): string {
  return stripVTControlCharacters(text).replace(/[\p{Cc}\u2028\u2029\u202a-\u202e\u2066-\u2069]/gu, (character) =>
    character === "\n" || character === "\t" ? character : "",
  );
}

/** Returns such a text on one line, so that a name cannot begin a row of a list. */
export const cellText = (text: string): string => harmless(text).replace(/\s+/g, " ");
