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
  const unnamed = new Set<string>();
  let env = context.env;
  for (let attempt = 1; ; attempt++) {
    try {
      await build({ ...context, env });
      return;
    } catch (error) {
      context.signal.throwIfAborted();
      const lines = context.log.lastLines(100);
      const missing = missingSheets(lines).filter((url) => sheets[url] === undefined);
      const families = missing.length > 0 ? missing.flatMap(familiesIn) : failedFamilies(lines);
      const isNew = missing.length > 0 || families.some((name) => !unnamed.has(name));
      if (!(error instanceof BuildFailure) || !isNew || attempt === attemptsMax) throw error;
      for (const url of missing) sheets[url] = sheetFor(url);
      for (const name of families) unnamed.add(name);
      const file = path.join(context.env["TMPDIR"] ?? tmpdir(), "pierhead-fonts.js");
      await writeFile(file, responsesModule(sheets));
      env = { ...context.env, NEXT_FONT_GOOGLE_MOCKED_RESPONSES: file };
      context.log.say(
        `The build downloads fonts from Google (${families.join(", ")}), which this machine cannot reach. Building again with system fonts. To use the fonts from Google, let builds reach fonts.googleapis.com and fonts.gstatic.com, or keep the fonts in the project with next/font/local.`,
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

/** Returns the names of fonts whose addresses the build does not name, as webpack with newer versions of Next.js. */
const failedFamilies = (output: readonly string[]): string[] => [
  ...new Set(output.flatMap((line) => /Failed to fetch `([\w -]{1,100})` from Google Fonts/.exec(line)?.[1] ?? [])),
];

/** Returns a module with a style sheet for each address. Webpack asks it for any other one, and Turbopack reads what it contains. */
const responsesModule = (sheets: Readonly<Record<string, string>>): string =>
  `const sheets = ${JSON.stringify(sheets)};
const sheet = ${JSON.stringify(fontFace)};
const familiesIn = (url) => new URL(url).searchParams.getAll("family").map((one) => one.split(":")[0]);
const sheetFor = (url) => familiesIn(url).map((name) => sheet.replace("NAME", name)).join("");
const get = (known, url) => known[url] ?? (/^https:/.test(String(url)) ? sheetFor(url) : undefined);
module.exports = new Proxy(sheets, { get });
`;

const fontFace =
  "@font-face {\n  font-family: 'NAME';\n  font-style: normal;\n  font-weight: 100 900;\n  font-display: swap;\n  src: local('Arial'), local('Helvetica');\n}\n";

const sheetFor = (url: string) =>
  familiesIn(url)
    .map((name) => fontFace.replace("NAME", name))
    .join("");
