import { isReservedImage } from "../../compute/docker/images.ts";
import { BuildFailure } from "../failure.ts";

/**
 * Refuses a project's own Dockerfile that begins with, or copies from, an image which this server made or keeps for
 * somebody: the engine would hand it out to whoever knows its name.
 * @throws BuildFailure `Unsupported`
 */
export function checkBaseNames(dockerfile: string): void {
  const instructions = instructionsOf(dockerfile);
  const values = argumentsOf(instructions);
  for (const instruction of instructions) {
    for (const name of imagesOf(instruction, values)) {
      if (isReservedImage(name) || isPushedHere(name)) throw refused(instruction, "is an image of this server's own");
      if (name.includes("$")) throw refused(instruction, "names an image in a way that is not understood here");
    }
  }
}

const refused = (instruction: string, why: string) =>
  new BuildFailure("Unsupported", `'${instruction.trim()}' ${why}. Name an image of a registry, plainly.`);

/** In the registry of a Pierhead, whatever it is called. */
const isPushedHere = (name: string) => /\/r\/[0-9a-f]{8}-[0-9a-f-]{27}\//.test(name);

/** One line each: comments gone, continued lines joined as the engine joins them. */
function instructionsOf(dockerfile: string): string[] {
  // Only above everything else is it a directive.
  const [, mark = "\\"] = /^(?:\s*#\s*\w+\s*=.*\n)*?\s*#\s*escape\s*=\s*([\\`])\s*(?:\n|$)/i.exec(dockerfile) ?? [];
  const lines = dockerfile.split(/\r?\n/).filter((line) => !/^\s*#/.test(line));
  const continued = new RegExp(`${mark === "`" ? "`" : "\\\\"}[ \\t]*\\n`, "g");
  return lines.join("\n").replaceAll(continued, "").split("\n");
}

/** Defaults of `ARG`, which names of images may be made of. */
function argumentsOf(instructions: string[]): Map<string, string> {
  const pairs = instructions.flatMap((line) => [
    ...(/^\s*ARG\s+(.*)$/i.exec(line)?.[1] ?? "").matchAll(/(\w+)=(\S*)/g),
  ]);
  return new Map(pairs.map(([, name = "", value = ""]) => [name, value]));
}

function imagesOf(instruction: string, values: Map<string, string>): string[] {
  const [, from] = /^\s*FROM\s+(?:--\S+\s+)*(\S+)/i.exec(instruction) ?? [];
  const copied = [...instruction.matchAll(/\s--from=(\S+)/gi)].map(([, name = ""]) => name);
  return [...(from === undefined ? [] : [from]), ...copied].map((name) => plain(name, values)).filter(isNoStage);
}

const plain = (name: string, values: Map<string, string>) =>
  name.replaceAll(/\$(?:\{(\w+)\}|(\w+))/g, (found, a, b) => values.get(a ?? b) ?? found).replaceAll(/["'\\`]/g, "");

/** Stages of a build can be named by their number. */
const isNoStage = (name: string) => !/^\d{1,3}$/.test(name);
