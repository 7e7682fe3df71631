import { isReservedImage } from "../../compute/docker/images/images.ts";
import { BuildFailure } from "../failure.ts";

/** An image that a stage is based on, as a Dockerfile names it. */
export interface BaseName {
  name: string;
  /** `linux/arm64`, when `FROM` sets a platform. */
  platform: string | null;
  instruction: string;
}

/**
 * Rejects a project's own Dockerfile that is based on, or copies from, an image that this server built or stores for
 * another project, because the engine gives such an image to every build that knows its name.
 * @returns the images that its stages are based on; their triggers (`ONBUILD`) are not in the Dockerfile.
 * @throws BuildFailure `Unsupported`
 */
export function checkBaseNames(dockerfile: string): BaseName[] {
  return readingsOf(dockerfile).flatMap((instructions) => checkReading(instructions).bases);
}

/** Returns the images that the engine pulls for a Dockerfile: those that stages are based on, and those that files are copied from. */
export function pulledNames(dockerfile: string): string[] {
  return [...new Set(readingsOf(dockerfile).flatMap((instructions) => checkReading(instructions).names))];
}

function checkReading(instructions: string[]): { bases: BaseName[]; names: string[] } {
  const bases: BaseName[] = [];
  const copied: string[] = [];
  const values = argumentsOf(instructions);
  const stages = new Set<string>(["scratch"]);
  // A stage has a name only after it has ended: before that, the name means an image.
  let unfinished: string | undefined;
  for (const instruction of instructions) {
    for (const name of copiedFrom(instruction)) {
      checkName(name, stages, instruction);
      if (!stages.has(name.toLowerCase())) copied.push(name);
    }
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
  return { bases, names: [...bases.map(({ name }) => name), ...copied] };
}

/** Returns the image and the stage name of a `FROM` instruction. */
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
  if (name.includes("$")) throw refused(instruction, "names an image with an expression that the build cannot resolve");
}

const refused = (instruction: string, why: string) =>
  new BuildFailure("Unsupported", `'${instruction.trim()}' ${why}. Use the literal name of an image in a registry.`);

/** Returns whether the image is in the registry of a Pierhead server, whatever its host name. */
const isPushedHere = (name: string) => /\/r\/[0-9a-f]{8}-[0-9a-f-]{27}\//.test(name);

/** Returns the instructions of a Dockerfile, once for each way in which old and new engines parse it. */
export function readingsOf(dockerfile: string): string[][] {
  // U+0085 is white space for the engine, but not in regular expressions.
  const lines = dockerfile
    .replace(/^\uFEFF/, "")
    .replaceAll("\u0085", " ")
    .split(/\r*\n/);
  const isDoubled = lines.some((line) => /\\\\[ \t]*$|``[ \t]*$/.test(line));
  return escapeMarks(lines).flatMap((mark) => {
    const one = mark === "`" ? "`" : "\\\\";
    // Newer engines read a doubled mark as the character itself; older ones treat it as a continuation too.
    const newer = new RegExp(`(^|[^${one}])${one}[ \\t]*$`);
    return [newer, ...(isDoubled ? [new RegExp(`()${one}[ \\t]*$`)] : [])].map((goesOn) => joined(lines, goesOn));
  });
}

/**
 * Returns the possible escape marks of a Dockerfile, most likely first. `escape` is a directive only at the top; after another directive only newer engines
 * accept it.
 */
export function escapeMarks(lines: string[]): string[] {
  const end = lines.findIndex((line) => !/^\s*(#|$)/.test(line));
  const above = lines.slice(0, end === -1 ? undefined : end);
  const marks = above.map((line) => /^\s*#\s*escape\s*=\s*([\\`])/i.exec(line)?.[1]);
  if (marks[0] !== undefined) return [marks[0]];
  return ["\\", ...(marks.includes("`") ? ["`"] : [])];
}

/** Joins continued lines to one line per instruction. Comments, and empty lines within an instruction, are dropped. */
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

/** Returns the defaults of `ARG` that image names may refer to: those before the first stage, not those within a stage. */
function argumentsOf(instructions: string[]): Map<string, string> {
  const first = instructions.findIndex((line) => /^\s*FROM\s/i.test(line));
  const pairs = instructions.slice(0, first === -1 ? undefined : first).flatMap((line) => {
    const [word, ...words] = line.trim().split(/\s+/);
    return /^ARG$/i.test(word ?? "") ? [...words.join(" ").matchAll(/(\w+)=(\S*)/g)] : [];
  });
  return new Map(pairs.map(([, name = "", value = ""]) => [name, value]));
}

/**
 * Returns the images and stages that an instruction copies from. A number always means a stage. The engine removes quotes
 * and escape marks from options before it parses them, so names may contain them.
 */
function copiedFrom(instruction: string): string[] {
  if (!/^\s*(ONBUILD\s+)*COPY\s/i.test(instruction)) return [];
  return [...plain(instruction).matchAll(/--from=(\S+)/gi)]
    .map(([, name = ""]) => name)
    .filter((name) => !/^\d+$/.test(name));
}

const expanded = (name: string, values: Map<string, string>) =>
  name.replaceAll(/\$(?:\{(\w+)\}|(\w+))/g, (found, a, b) => values.get(a ?? b) ?? found);

export const plain = (text: string) => text.replaceAll(/["'\\`]/g, "");
