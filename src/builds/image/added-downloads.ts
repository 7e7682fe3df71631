import { mkdir, writeFile } from "node:fs/promises";
import path from "node:path";
import { fetchOutward, OutboundFailure, type OutboundPolicy } from "../../integrations/outbound-fetch.ts";
import { BuildFailure } from "../failure.ts";
import type { BuildContext } from "../worker/run-command.ts";
import { readingsOf } from "./base-names.ts";

/** Directory of a build context for files that Pierhead downloaded. */
export const downloadsDir = ".pierhead-downloads";

/** What a build may download for one instruction. */
export const policyOfBuilds: OutboundPolicy = {
  allowPrivateNetwork: false,
  plainHttp: "anywhere",
  timeoutMs: 120_000,
  bytesMax: 100 * 1024 * 1024,
};

/** GitHub's releases need two. */
const redirectsMax = 5;

/**
 * Downloads what a project's Dockerfile adds by URL into its build context, and returns the Dockerfile with `COPY` in the place of
 * these instructions. The engine would download in the operator's network and follow redirects to any address. Only whole lines
 * with a literal URL are replaced; the caller refuses all others.
 * @throws BuildFailure `Unsupported` when an address must not be called, `BuildFailed` when it does not answer
 */
export async function downloadAdded(
  dockerfile: string,
  { sourceDir, log, signal }: Pick<BuildContext, "sourceDir" | "log" | "signal">,
  policy = policyOfBuilds,
): Promise<string> {
  const lines = dockerfile.split("\n");
  let isMade = false;
  for (const [index, line] of lines.entries()) {
    const added = addedBy(line);
    if (added === null || !isInstruction(dockerfile, line)) continue;
    const content = await download(added, signal, policy);
    if (!isMade) await makeDirectory(sourceDir);
    isMade = true;
    const file = path.posix.join(downloadsDir, String(index + 1), added.name);
    await mkdir(path.join(sourceDir, path.dirname(file)));
    // As the engine stores it: only the owner may read it.
    await writeFile(path.join(sourceDir, file), content, { flag: "wx", mode: 0o600 });
    lines[index] = `COPY ${added.options}${file} ${added.target}`;
    log.say(`'${added.instruction}': downloaded ${content.length} bytes.`);
  }
  return lines.join("\n");
}

/** Makes the directory new: one of the project could be a link out of its source. @throws BuildFailure `Unsupported` */
async function makeDirectory(sourceDir: string): Promise<void> {
  try {
    await mkdir(path.join(sourceDir, downloadsDir));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
    throw new BuildFailure(
      "Unsupported",
      `The source has a '${downloadsDir}', where Pierhead downloads to. Rename it.`,
    );
  }
}

interface Added {
  instruction: string;
  options: string;
  url: URL;
  /** Of the file in a target that is a directory. */
  name: string;
  target: string;
}

/** Reads a line that adds one literal URL; null for any other line. */
function addedBy(line: string): Added | null {
  const [, options = "", address = "", target = ""] =
    /^\s*ADD\s+((?:--chown=[\w:.-]+\s+)?)(https?:\/\/[^\s"'\\`$]+)\s+([\w./@+-]+)\s*$/i.exec(line) ?? [];
  if (!URL.canParse(address)) return null;
  const url = new URL(address);
  const [name = ""] = /[\w.@+-]*$/.exec(url.pathname) ?? [];
  const isNamed = /\w/.test(name);
  if (!isNamed && target.endsWith("/")) return null;
  return { instruction: line.trim(), options, url, name: isNamed ? name : "file", target };
}

/** Returns whether a line is an instruction of its own in every way in which engines read the Dockerfile, and not a part of another. */
function isInstruction(dockerfile: string, line: string): boolean {
  const count = dockerfile.split("\n").filter((one) => one === line).length;
  const text = line.replace(/\r*$/, "");
  return readingsOf(dockerfile).every((reading) => reading.filter((one) => one === text).length === count);
}

async function download({ instruction, url }: Added, signal: AbortSignal, policy: OutboundPolicy): Promise<Uint8Array> {
  let address = url;
  try {
    for (let hop = 0; hop <= redirectsMax; hop += 1) {
      const answer = await fetchOutward(address.href, { signal }, policy);
      const location = answer.headers.get("location");
      if (answer.status >= 300 && answer.status < 400 && location !== null && URL.canParse(location, address.href)) {
        address = new URL(location, address);
        continue;
      }
      if (answer.ok) return new Uint8Array(await answer.arrayBuffer());
      throw failed(instruction, `${address.host} answered with status ${answer.status}.`);
    }
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof OutboundFailure)
      throw failed(instruction, error.message, error.reason === "refused" ? "Unsupported" : "BuildFailed");
    throw error;
  }
  throw failed(instruction, `${url.host} redirected more than ${redirectsMax} times.`);
}

const failed = (instruction: string, because: string, reason: "BuildFailed" | "Unsupported" = "BuildFailed") =>
  new BuildFailure(reason, `'${instruction}': ${because}`);
