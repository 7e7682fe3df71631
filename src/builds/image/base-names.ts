import { isReservedImage } from "../../compute/docker/images/images.ts";
import { BuildFailure } from "../failure.ts";

/** An image that a stage begins with, as a Dockerfile names it. */
export interface BaseName {
  name: string;
  /** `linux/arm64`, when `FROM` asks for one. */
  platform: string | null;
  instruction: string;
}

/**
 * Refuses a project's own Dockerfile that begins with, or copies from, an image which this server made or keeps for
 * somebody: the engine would hand it out to whoever knows its name.
 * @returns the images that its stages begin with; what those set in motion (`ONBUILD`) is not in the Dockerfile.
 * @throws BuildFailure `Unsupported`
 */
export function checkBaseNames(dockerfile: string): BaseName[] {
  return readingsOf(dockerfile).flatMap(checkReading);
}

function checkReading(instructions: string[]): BaseName[] {
  const bases: BaseName[] = [];
  const values = argumentsOf(instructions);
  const stages = new Set<string>(["scratch"]);
  // A stage can be named once it has ended: before that its name is that of an image.
  let unfinished: string | undefined;
  for (const instruction of instructions) {
    for (const name of copiedFrom(instruction)) checkName(name, stages, instruction);
    const begun = stageBegunBy(instruction);
    if (begun === null) continue;
    if (unfinished !== undefined) stages.add(unfinished);
    unfinished = begun.stage;
    for (const written of begun.names) {
      const name = plain(expanded(written, values));
      checkName(name, stages, instruction);
      if (stages.has(name.toLowerCase())) continue;
      bases.push({ name, platform: begun.platform && plain(expanded(begun.platform, values)), instruction });
    }
  }
  return bases;
}

/** What stands where `FROM` has its image, and what it calls the stage. */
function stageBegunBy(instruction: string) {
  const [first = "", ...words] = instruction.trim().split(/\s+/);
  if (!/^FROM$/i.test(first)) return null;
  const as = words.findIndex((word) => /^as$/i.test(word));
  const named = as === -1 ? words : words.slice(0, as);
  const names = named.filter((word) => !word.startsWith("--"));
  const options = named.filter((word) => word.startsWith("--")).map((word) => plain(word));
  const platform = options.find((option) => option.startsWith("--platform="))?.slice("--platform=".length) ?? null;
  return { names, platform, stage: as === -1 ? undefined : words[as + 1]?.toLowerCase() };
}

function checkName(name: string, stages: Set<string>, instruction: string): void {
  if (stages.has(name.toLowerCase())) return;
  if (isReservedImage(name) || isPushedHere(name)) throw refused(instruction, "is an image of this server's own");
  if (name.includes("$")) throw refused(instruction, "names an image in a way that is not understood here");
}

const refused = (instruction: string, why: string) =>
  new BuildFailure("Unsupported", `'${instruction.trim()}' ${why}. Name an image of a registry, plainly.`);

/** In the registry of a Pierhead, whatever it is called. */
const isPushedHere = (name: string) => /\/r\/[0-9a-f]{8}-[0-9a-f-]{27}\//.test(name);

/** Where engines of different age read a Dockerfile differently, each way that there is. */
function readingsOf(dockerfile: string): string[][] {
  const lines = dockerfile.replace(/^\uFEFF/, "").split(/\r*\n/);
  const isDoubled = lines.some((line) => /\\\\[ \t]*$|``[ \t]*$/.test(line));
  return marksOf(lines).flatMap((mark) => {
    const one = mark === "`" ? "`" : "\\\\";
    // Newer engines take a doubled mark for the character itself, older ones go on after it as well.
    const newer = new RegExp(`(^|[^${one}])${one}[ \\t]*$`);
    return [newer, ...(isDoubled ? [new RegExp(`()${one}[ \\t]*$`)] : [])].map((goesOn) => joined(lines, goesOn));
  });
}

/** Only above everything else is `escape` a directive; below another one it is for newer engines alone. */
function marksOf(lines: string[]): string[] {
  const end = lines.findIndex((line) => !/^\s*(#|$)/.test(line));
  const above = lines.slice(0, end === -1 ? undefined : end);
  const marks = above.map((line) => /^\s*#\s*escape\s*=\s*([\\`])/i.exec(line)?.[1]);
  if (marks[0] !== undefined) return [marks[0]];
  return ["\\", ...(marks.includes("`") ? ["`"] : [])];
}

/** One line an instruction: comments are gone, and what goes on does so past lines that are empty. */
function joined(lines: string[], goesOn: RegExp): string[] {
  const instructions: string[] = [];
  let begun: string | null = null;
  for (const line of lines) {
    if (/^\s*#/.test(line) || (begun !== null && line.trim() === "")) continue;
    const text: string = (begun ?? "") + line.replace(goesOn, "$1");
    begun = goesOn.test(line) ? text : null;
    if (begun === null) instructions.push(text);
  }
  return begun === null ? instructions : [...instructions, begun];
}

/** Defaults of `ARG`, which names of images may be made of: those above the first stage, and not what a stage calls so. */
function argumentsOf(instructions: string[]): Map<string, string> {
  const first = instructions.findIndex((line) => /^\s*FROM\s/i.test(line));
  const pairs = instructions.slice(0, first === -1 ? undefined : first).flatMap((line) => {
    const [word, ...words] = line.trim().split(/\s+/);
    return /^ARG$/i.test(word ?? "") ? [...words.join(" ").matchAll(/(\w+)=(\S*)/g)] : [];
  });
  return new Map(pairs.map(([, name = "", value = ""]) => [name, value]));
}

/**
 * Images and stages by name; a number is always a stage's here. The engine takes quotes and marks of escape out of
 * options before it reads them, so their names may hold some.
 */
function copiedFrom(instruction: string): string[] {
  if (!/^\s*(ONBUILD\s+)*COPY\s/i.test(instruction)) return [];
  return [...plain(instruction).matchAll(/--from=(\S+)/gi)]
    .map(([, name = ""]) => name)
    .filter((name) => !/^\d+$/.test(name));
}

const expanded = (name: string, values: Map<string, string>) =>
  name.replaceAll(/\$(?:\{(\w+)\}|(\w+))/g, (found, a, b) => values.get(a ?? b) ?? found);

const plain = (text: string) => text.replaceAll(/["'\\`]/g, "");
