import type { ProjectReader } from "../../domain/detection/project-sources.ts";

const filesMax = 200;
const namesMax = 50;

/** Sources whose variables a start may need. Tests and scripts have others. */
const source = /\.(py|[cm]?[jt]sx?)$/;
const besides =
  /(^|\/)(tests?|__tests__|docs?|examples?|notebooks?|evals?|scripts|node_modules)\/|\.(test|spec|d)\.\w+$/;

/** Reads that fail without the variable, in Python and TypeScript. */
const required = /\benviron\[["']([A-Z][A-Z0-9_]+)["']\]|\bprocess\.env\.([A-Z][A-Z0-9_]+)!/g;

/** Reads without a default of variables whose names say that they hold credentials or an address. */
const likely =
  /(?:\bgetenv\(|\benviron\.get\(|\bprocess\.env\.|\bprocess\.env\[)["']?([A-Z][A-Z0-9_]*_(?:KEY|TOKEN|SECRET|PASSWORD|URL|URI|ENDPOINT))\b(?!["'\]]* *(?:,|\?\?|\|\|))/g;

/** Returns the names of the variables that the source files of a project read and for which they have no default. */
export async function readVariables(reader: ProjectReader): Promise<string[]> {
  const files = (await reader.list()).filter((file) => source.test(file) && !besides.test(file)).slice(0, filesMax);
  const texts = await Promise.all(files.map(async (file) => (await reader.read(file)) ?? ""));
  const found = [required, likely].flatMap((form) =>
    texts.flatMap((text) => [...text.matchAll(form)].map((match) => match[1] ?? match[2] ?? "")),
  );
  return [...new Set(found)].slice(0, namesMax);
}
