import { BuildFailure } from "../failure.ts";
import { readingsOf } from "./base-names.ts";

/**
 * Limit of an instruction after the engine has replaced its variables. The engine's time grows with the square of it (64 KiB take a second,
 * 500 KiB two minutes), outside of the limits of the build and also after its end.
 */
const expandedBytesMax = 64 * 1024;

/** Instructions whose words and variables the engine reads. Programs get the others as they are. */
const expandedInstructions =
  /^\s*(?:ONBUILD\s+)*(?:ADD|ARG|COPY|ENV|EXPOSE|FROM|LABEL|STOPSIGNAL|USER|VOLUME|WORKDIR)\s/i;

/** Ports that a Dockerfile may name. The engine keeps each port of a range: 3,000 times all ports took it gigabytes of memory. */
const portsMax = 1_000;

/**
 * Rejects a Dockerfile whose instructions get too long by the variables that they name, or that names too many ports.
 * @param bases variables of the images that its stages are based on (`NAME=value`), and the instructions that these add (`ONBUILD`)
 * @throws BuildFailure `Unsupported`
 */
export function checkExpansions(dockerfile: string, bases: { variables: string[]; triggers: string[] }): void {
  for (const instructions of readingsOf(dockerfile)) {
    const variables = new Variables();
    for (const variable of bases.variables) variables.set(variable.split("=", 1), variable);
    let ports = 0;
    for (const instruction of [...bases.triggers, ...instructions]) {
      if (!expandedInstructions.test(instruction)) continue;
      if (variables.sizeOf(instruction) > expandedBytesMax) throw tooLong(instruction);
      ports += portsOf(instruction, variables);
      if (ports > portsMax) throw tooManyPorts(instruction);
      for (const { names, text } of assignmentsIn(instruction)) variables.set(names, text);
    }
  }
}

/** What variables can have at most. A stage does not inherit those of the stage above, so this may be more than they have. */
class Variables {
  readonly #sizes = new Map<string, number>();
  /** Variables with a range of ports, or with the mark of one. */
  readonly #ranges = new Set<string>();

  set(names: Iterable<string>, text: string): void {
    const size = this.sizeOf(text);
    const read = isPlain(text) ? withoutDefaults(text) : text;
    const mayBeRange = read.includes("-") || this.hasRange(text);
    for (const name of names) {
      this.#sizes.set(name, Math.max(size, this.#sizes.get(name) ?? 0));
      if (mayBeRange) this.#ranges.add(name);
    }
  }

  /** Returns the length of a text after its variables were replaced. */
  sizeOf(text: string): number {
    return text.length + namesIn(text).reduce((sum, name) => sum + (this.#sizes.get(name) ?? 0), 0);
  }

  /** Returns whether a variable in a text may have a range. */
  hasRange(text: string): boolean {
    return namesIn(text).some((name) => this.#ranges.has(name));
  }
}

const namesIn = (text: string): string[] => [...text.matchAll(/\$\{?([A-Za-z_]\w*|\d)/g)].map(([, name = ""]) => name);

/** Returns a text without the marks of defaults, which are no ranges: `${PORT:-8000}`. */
const withoutDefaults = (text: string): string => text.replaceAll(/\$\{\w+:?[-+?]/g, "$X ");

/** Whether every engine reads each `${` as a variable. */
const isPlain = (text: string): boolean => !/['`\\]|\$\$/.test(text);

/** Returns the number of ports that `EXPOSE` names: too many if a range is not literal. */
function portsOf(instruction: string, variables: Variables): number {
  if (!/^\s*(?:ONBUILD\s+)*EXPOSE\s/i.test(instruction)) return 0;
  let ports = 0;
  const rest = withoutDefaults(instruction).replaceAll(/(?<![\w-])(\d+)-(\d+)(?![\w-])/g, (_, first, last) => {
    ports += Math.max(1, Number(last) - Number(first) + 1);
    return "";
  });
  return rest.includes("-") || variables.hasRange(instruction) ? Infinity : ports;
}

/** Words with balanced quotes and without escape marks, which every engine reads in the same way. */
const value = /(?:[^\s"'`\\]|"[^"`\\]*"|'[^'`\\]*')*/.source;
const plainPairs = new RegExp(
  `^[ \\t]*(?:ENV(?:[ \\t]+[\\w.-]+=${value})+|ARG(?:[ \\t]+\\w+(?:=${value})?)+)[ \\t]*$`,
  "i",
);
const plainPair = new RegExp(`[ \\t]([\\w.-]+)=(${value})`, "g");

/**
 * Returns the variables that an instruction sets, each with the text that it gets. Where quotes, escape marks or the form without `=` make
 * that doubtful, each gets the whole instruction.
 */
function assignmentsIn(instruction: string): { names: Iterable<string>; text: string }[] {
  if (!/^\s*(?:ENV|ARG)\s/i.test(instruction)) return [];
  if (plainPairs.test(instruction))
    return [...instruction.matchAll(plainPair)].map(([, name = "", text = ""]) => ({ names: [name], text }));
  const [, first = ""] = instruction.trim().split(/\s+/, 2);
  const others = [...instruction.matchAll(/(?<!\w)(\w+)=/g)].map(([, name = ""]) => name);
  return [{ names: new Set([first, ...others]), text: instruction }];
}

const tooManyPorts = (instruction: string) =>
  new BuildFailure(
    "Unsupported",
    `'${instruction.trim().slice(0, 80)}' names more than ${portsMax} ports, or a range by a variable. Name the ports that the server uses.`,
  );

const tooLong = (instruction: string) =>
  new BuildFailure(
    "Unsupported",
    `'${instruction.trim().slice(0, 80)}' gets longer than ${expandedBytesMax / 1024} KiB by its variables. Use shorter variables, or fewer of them.`,
  );
