import { readFile } from "node:fs/promises";
import path from "node:path";
import { publicName } from "../../domain/public-variables.ts";
import { expectedVariables } from "../detect/expected-variables.ts";
import { projectReader } from "../detect/project-reader.ts";
import { readVariables } from "../detect/read-variables.ts";
import { BuildFailure } from "../failure.ts";
import type { BuildContext } from "../worker/run-command.ts";

/**
 * Runs the build of a project. Frameworks such as Next.js load every page while they build, and pages make clients that insist on
 * a key. Builds get no secrets, so a build that fails for want of variables runs once more with placeholders for them.
 * @param directory of the project, relative to the root of the source.
 * @throws BuildFailure of the first attempt when variables were not the cause, else of the second one.
 */
export async function buildWithPlaceholders(
  context: BuildContext,
  directory: string,
  build: (context: BuildContext) => Promise<void>,
): Promise<void> {
  try {
    await build(context);
  } catch (error) {
    context.signal.throwIfAborted();
    if (!(error instanceof BuildFailure) || error.reason !== "BuildFailed") throw error;
    const placeholders = await findPlaceholders(context, directory);
    const names = Object.keys(placeholders);
    if (names.length === 0) throw error;
    context.log.say(
      `The build needs variables that only the running server gets. Building again with placeholders for ${names.join(", ")}.`,
    );
    const fixed = names.filter((name) => publicName.test(name));
    if (fixed.length > 0)
      context.log.say(
        `Note: the code for browsers keeps the value that ${fixed.join(", ")} had during the build. Set the real value for the deployment (pierhead env set), which builds again.`,
      );
    await build({ ...context, env: { ...placeholders, ...context.env } });
  }
}

/** Names of variables that hold credentials, addresses and names of resources. Others change what a build does. */
const wantedName = /^[A-Z][A-Z0-9_]*(?:KEY|TOKEN|SECRET|PASSWORD|URL|URI|ENDPOINT|DSN|ID|BUCKET|DATABASE|ACCOUNT)$/;

/** What programs print that miss a variable, or a client that got none. */
const missingForms =
  /environment variable|\bapi[_ -]?key\b|credential|connection string|Failed to collect page data|prerendering page|Invalid URL|\b(?:is|are) (?:required|missing|not set|not defined)\b/i;

/** Failures that no variable mends. */
const otherForms = /\bType error: |\bTS\d{4}: |\bModule not found\b|\bCannot find module\b|\bSyntaxError\b/;

async function findPlaceholders(
  { log, sourceDir, env }: BuildContext,
  directory: string,
): Promise<Record<string, string>> {
  const lines = log.lastLines(100).map((line) => line.slice(0, 1_000));
  if (lines.some((line) => otherForms.test(line))) return {};
  const printed = lines.flatMap((line) => line.match(/\b[A-Z][A-Z0-9]*_[A-Z0-9_]+\b/g) ?? []).filter(isWanted);
  if (printed.length === 0 && !lines.some((line) => missingForms.test(line))) return {};
  const expected = await expectedVariables(sourceDir, directory);
  const read = await readVariables(projectReader(sourceDir, directory));
  const own = await variablesOfSource(path.join(sourceDir, directory));
  const names = new Set([...printed, ...(expected?.names ?? []), ...read].filter(isWanted));
  return Object.fromEntries(
    [...names]
      .filter((name) => !own.has(name) && env[name] === undefined)
      .map((name) => [name, placeholderFor(name, expected?.examples[name] ?? "")]),
  );
}

const isWanted = (name: string) => wantedName.test(name);

/** Returns the names of the variables in the `.env` files of a source, which the framework reads itself. */
async function variablesOfSource(directory: string): Promise<ReadonlySet<string>> {
  const files = [".env", ".env.production", ".env.local"].map((name) => path.join(directory, name));
  const texts = await Promise.all(files.map((file) => readFile(file, "utf8").catch(() => "")));
  return new Set(
    texts.flatMap((text) => [...text.matchAll(/^[ \t]*(?:export[ \t]+)?(\w+)[ \t]*=/gm)].map(([, name = ""]) => name)),
  );
}

/** Addresses at which nothing answers, in the form that clients check. */
const addresses: [names: RegExp, value: string][] = [
  [/POSTGRES|^PG|NEON|^DATABASE_|_DATABASE_|^DB_/, "postgres://placeholder:placeholder@127.0.0.1:1/placeholder"],
  [/MONGO/, "mongodb://127.0.0.1:1/placeholder"],
  [/REDIS|KV_URL/, "redis://127.0.0.1:1"],
  [/SENTRY|_DSN$/, ""],
  [/./, "http://127.0.0.1:1"],
];

function placeholderFor(name: string, example: string): string {
  if (!/(?:URL|URI|ENDPOINT|DSN)$/.test(name)) return example === "" ? "placeholder" : example;
  return URL.canParse(example) ? example : (addresses.find(([names]) => names.test(name))?.[1] ?? "");
}
