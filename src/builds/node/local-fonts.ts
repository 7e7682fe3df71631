import { writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { BuildFailure } from "../failure.ts";
import type { BuildContext } from "../worker/run-command.ts";

/**
 * Runs the build of a project, and runs it again without the fonts from Google that it could not download. Next.js reads what it
 * would have downloaded from the module that NEXT_FONT_GOOGLE_MOCKED_RESPONSES names: a style sheet for each address.
 * @throws BuildFailure of the last attempt.
 */
export async function buildWithLocalFonts(
  context: BuildContext,
  build: (context: BuildContext) => Promise<void>,
): Promise<void> {
  const sheets: Record<string, string> = {};
  let env = context.env;
  for (let attempt = 1; ; attempt++) {
    try {
      await build({ ...context, env });
      return;
    } catch (error) {
      context.signal.throwIfAborted();
      const missing = missingSheets(context.log.lastLines(100)).filter((url) => sheets[url] === undefined);
      if (!(error instanceof BuildFailure) || missing.length === 0 || attempt === attemptsMax) throw error;
      for (const url of missing) sheets[url] = sheetFor(url);
      const file = path.join(context.env["TMPDIR"] ?? tmpdir(), "pierhead-fonts.js");
      await writeFile(file, `module.exports = ${JSON.stringify(sheets)};\n`);
      env = { ...context.env, NEXT_FONT_GOOGLE_MOCKED_RESPONSES: file };
      context.log.say(
        `The build downloads fonts from Google (${missing.flatMap(familiesIn).join(", ")}), which this machine cannot reach. Building again with system fonts. To use the fonts from Google, let builds reach fonts.googleapis.com and fonts.gstatic.com, or keep the fonts in the project with next/font/local.`,
      );
    }
  }
}

/** A build reports several missing fonts at once, but webpack and Turbopack stop at different ones. */
const attemptsMax = 3;

const failedForms =
  /Failed to fetch (?:font )?`[^`]{1,100}`|connection while requesting https:\/\/fonts\.|request to https:\/\/fonts\.googleapis\.com\/\S{1,500} failed|Missing mocked response/;

function missingSheets(output: readonly string[]): string[] {
  const lines = output.map((line) => line.slice(0, 1_000));
  if (!lines.some((line) => failedForms.test(line))) return [];
  const form = /https:\/\/fonts\.googleapis\.com\/css2\?[^\s"'`<>]{1,500}/g;
  return [...new Set(lines.flatMap((line) => line.match(form) ?? []))].filter((url) => familiesIn(url).length > 0);
}

/** Returns the names of the fonts that an address asks for. */
function familiesIn(url: string): string[] {
  const families = URL.canParse(url) ? new URL(url).searchParams.getAll("family") : [];
  return families.map((one) => one.split(":")[0] ?? "").filter((name) => /^[\w -]+$/.test(name));
}

const sheetFor = (url: string) =>
  familiesIn(url)
    .map(
      (name) =>
        `@font-face {\n  font-family: '${name}';\n  font-style: normal;\n  font-weight: 100 900;\n  font-display: swap;\n  src: local('Arial'), local('Helvetica');\n}\n`,
    )
    .join("");
