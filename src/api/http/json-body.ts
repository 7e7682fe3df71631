import type { ValidationItem } from "../../contract/error.ts";

/**
 * Parses a request body. Invalid JSON is reported as the original API does: the offset in characters and the messages
 * of Python's decoder. Of duplicate keys the last one wins. An empty body is undefined; the operation decides whether
 * that is a problem.
 */
export function parseJsonBody(bytes: Buffer): { value: unknown } | { problem: ValidationItem } {
  if (bytes.length === 0) return { value: undefined };
  const text = decode(bytes);
  if (text === undefined) return { problem: jsonInvalid({ reason: "Expecting value", at: 0 }, "") };
  try {
    return { value: JSON.parse(text) };
  } catch {
    return { problem: jsonInvalid(findFault(text), text) };
  }
}

const utf8 = new TextDecoder("utf-8", { fatal: true });

/** Returns the text without its byte order mark; undefined for invalid UTF-8. */
function decode(bytes: Buffer): string | undefined {
  try {
    return utf8.decode(bytes);
  } catch {
    return undefined;
  }
}

interface Fault {
  reason: string;
  at: number;
}

function jsonInvalid(fault: Fault, text: string): ValidationItem {
  const offset = codePointsBefore(text, fault.at);
  return {
    type: "json_invalid",
    loc: ["body", offset],
    msg: "JSON decode error",
    input: {},
    ctx: { error: fault.reason },
  };
}

/** Python counts code points. A list of them would take seconds for a large text. */
function codePointsBefore(text: string, end: number): number {
  let count = 0;
  for (let at = 0; at < end; at += (text.codePointAt(at) ?? 0) > 0xffff ? 2 : 1) count += 1;
  return count;
}

/**
 * Returns where Python's scanner rejects a broken text. Not recursive, because the sender controls the nesting depth.
 */
export function findFault(text: string): Fault {
  const scanner = new Scanner(text);
  const fault = scanner.document();
  return fault ?? { reason: "Expecting value", at: 0 };
}

const number = /-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?/y;
const constant = /null|true|false/y;
const hex = /[0-9a-fA-F]{4}/y;

type Container = "{" | "[";
const closing = { "{": "}", "[": "]" } as const;

/** A position in a text that moves forward until it finds an error. */
class Scanner {
  readonly #text: string;
  #at = 0;

  constructor(text: string) {
    this.#text = text;
  }

  document(): Fault | undefined {
    this.#skipBlank();
    const fault = this.#value();
    if (fault !== undefined) return fault;
    this.#skipBlank();
    return this.#at < this.#text.length ? this.#fault("Extra data") : undefined;
  }

  /** Scans a value with everything in it; `open` holds the containers around the current position. */
  #value(): Fault | undefined {
    const open: Container[] = [];
    for (;;) {
      const next = this.#isContainer() ? this.#enter(open) : (this.#scalar() ?? "ended");
      const after = next === "ended" ? this.#afterValue(open) : next;
      if (after !== "value") return after;
    }
  }

  #isContainer(): boolean {
    return this.#text[this.#at] === "{" || this.#text[this.#at] === "[";
  }

  /** Enters a container and moves to its first value; an empty container has ended already. */
  #enter(open: Container[]): Fault | "value" | "ended" {
    const container = this.#text[this.#at] as Container;
    this.#at += 1;
    this.#skipBlank();
    if (this.#text[this.#at] === closing[container]) {
      this.#at += 1;
      return "ended";
    }
    open.push(container);
    return this.#member(container);
  }

  /** Moves to the value of the next member, past its key if it has one. */
  #member(container: Container): Fault | "value" {
    return (container === "{" ? this.#key() : undefined) ?? "value";
  }

  /** Closes the containers that end here and moves to the next value; undefined when the outermost one has ended. */
  #afterValue(open: Container[]): Fault | "value" | undefined {
    for (;;) {
      const container = open.at(-1);
      if (container === undefined) return undefined;
      this.#skipBlank();
      const next = this.#text[this.#at];
      if (next !== closing[container]) {
        if (next !== ",") return this.#fault("Expecting ',' delimiter");
        this.#at += 1;
        this.#skipBlank();
        return this.#member(container);
      }
      this.#at += 1;
      open.pop();
    }
  }

  #key(): Fault | undefined {
    if (this.#text[this.#at] !== '"') return this.#fault("Expecting property name enclosed in double quotes");
    const fault = this.#string();
    if (fault !== undefined) return fault;
    this.#skipBlank();
    if (this.#text[this.#at] !== ":") return this.#fault("Expecting ':' delimiter");
    this.#at += 1;
    this.#skipBlank();
    return undefined;
  }

  #scalar(): Fault | undefined {
    if (this.#text[this.#at] === '"') return this.#string();
    return this.#match(constant) || this.#match(number) ? undefined : this.#fault("Expecting value");
  }

  #string(): Fault | undefined {
    const begin = this.#at;
    this.#at += 1;
    for (;;) {
      this.#skipPlain();
      const next = this.#text[this.#at];
      if (next === undefined) return { reason: "Unterminated string starting at", at: begin };
      if (next === '"') {
        this.#at += 1;
        return undefined;
      }
      if (next !== "\\") return this.#fault("Invalid control character at");
      const fault = this.#escape(begin);
      if (fault !== undefined) return fault;
    }
  }

  #escape(begin: number): Fault | undefined {
    const kind = this.#text[this.#at + 1];
    if (kind === undefined) return { reason: "Unterminated string starting at", at: begin };
    if (kind !== "u") {
      if (!'"\\/bfnrt'.includes(kind)) return this.#fault("Invalid \\escape");
      this.#at += 2;
      return undefined;
    }
    hex.lastIndex = this.#at + 2;
    // Python requires a character after the digits: at least the closing quote.
    if (!hex.test(this.#text) || this.#at + 6 >= this.#text.length)
      return { reason: "Invalid \\uXXXX escape", at: this.#at + 1 };
    this.#at += 6;
    return undefined;
  }

  #skipBlank(): void {
    for (;;) {
      const code = this.#text.charCodeAt(this.#at);
      if (code !== 0x20 && code !== 0x0a && code !== 0x0d && code !== 0x09) return;
      this.#at += 1;
    }
  }

  /** Moves to the closing quote, a backslash or a control character. */
  #skipPlain(): void {
    const text = this.#text;
    let at = this.#at;
    for (; at < text.length; at += 1) {
      const code = text.charCodeAt(at);
      if (code < 0x20 || code === 0x22 || code === 0x5c) break;
    }
    this.#at = at;
  }

  #match(pattern: RegExp): boolean {
    pattern.lastIndex = this.#at;
    const isFound = pattern.test(this.#text);
    if (isFound) this.#at = pattern.lastIndex;
    return isFound;
  }

  #fault(reason: string): Fault {
    return { reason, at: this.#at };
  }
}
