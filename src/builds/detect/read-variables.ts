import type { ProjectReader } from "../../domain/detection/project-sources.ts";
import { expectedVariables } from "./expected-variables.ts";
import { projectReader } from "./project-reader.ts";

const filesMax = 200;
const namesMax = 50;

/** Sources whose variables a start may need. Tests and scripts have others. */
const source = /\.(py|[cm]?[jt]sx?|prisma)$/;
const besides =
  /(^|\/)(tests?|__tests__|docs?|examples?|notebooks?|evals?|scripts|node_modules)\/|\.(test|spec|d)\.\w+$/;

/** Reads that fail without the variable, in Python and TypeScript. */
const required = /\benviron\[["']([A-Z][A-Z0-9_]+)["']\]|\bprocess\.env\.([A-Z][A-Z0-9_]+)!/g;

/** Reads without a default of variables whose names say that they hold credentials, an address, or a part of a database's address. */
const likely =
  /(?:\bgetenv\(|\benviron\.get\(|\bprocess\.env\.|\bprocess\.env\[)["']?([A-Z][A-Z0-9_]*_(?:KEY|TOKEN|SECRET|PASSWORD|URL|URI|ENDPOINT)|(?:DB|DATABASE|POSTGRES|PG|MYSQL)_(?:HOST|PORT|USER|USERNAME|PASS|NAME|DATABASE))\b(?!["'] *,|["'\]]* *(?:\?\?|\|\|))/g;

/** The address of a database in a schema of Prisma. */
const inSchema = /\burl[ \t]*=[ \t]*env\("([A-Z][A-Z0-9_]+)"\)/g;

const prefixed = /\benv_prefix[ \t]*=[ \t]*["']\w+["'][ \t]*[,)\n]/;

/** Fields without a default of the settings of Pydantic, with the same names. */
const field =
  /^[ \t]+(\w+_(?:key|token|secret|password|url|uri|endpoint|dsn))[ \t]*:[ \t]*(?:str|SecretStr|\w*Dsn|\w*Url)[ \t]*$/gim;

const hasSettings = (text: string) => text.includes("BaseSettings") && !prefixed.test(text);

const anyField = /^[ \t]+([a-z]\w*)[ \t]*:/gm;

/** Returns the variables of the fields that a text has in settings of Pydantic, with and without defaults. */
export const settingsIn = (text: string): string[] =>
  hasSettings(text) ? namesIn([text], anyField).map((name) => name.toUpperCase()) : [];

/** Returns the names of the variables that the source files of a project read and for which they have no default. */
export async function readVariables(reader: ProjectReader): Promise<string[]> {
  const texts = await readSourceTexts(reader);
  const settings = texts.filter(hasSettings);
  const schemas = texts.filter((text) => /\bprovider[ \t]*=[ \t]*"postgres/.test(text));
  const found = [
    ...[required, likely].flatMap((form) => namesIn(texts, form)),
    ...namesIn(settings, field).map((name) => name.toUpperCase()),
    ...namesIn(schemas, inSchema),
  ];
  return [...new Set(found)].slice(0, namesMax);
}

/** Returns the texts of the source files that a start may run. */
export async function readSourceTexts(reader: ProjectReader): Promise<string[]> {
  const files = (await reader.list()).filter((file) => source.test(file) && !besides.test(file)).slice(0, filesMax);
  return Promise.all(files.map(async (file) => (await reader.read(file)) ?? ""));
}

const namesIn = (texts: readonly string[], form: RegExp) =>
  texts.flatMap((text) => [...text.matchAll(form)].map((match) => match[1] ?? match[2] ?? ""));

/** Matches the address of a PostgreSQL, which for SQLAlchemy names the driver: `postgresql+asyncpg://`. */
const postgresAddress = /^(postgres(?:ql)?(?:\+[a-z0-9]+)?):\/\//;

/** The database of a deployment is not for tests, which may delete what it contains. */
const ofTests = /(?:^|_)TESTS?(?:_|$)/;

/**
 * Returns the variables in which the example file of a project has the address of its PostgreSQL, and the scheme of each. With several
 * databases it is that of DATABASE_URL; without one, it is unknown which is the project's own.
 */
export async function databaseSchemes(sourceDir: string, directory: string): Promise<Record<string, string>> {
  const { examples = {} } = (await expectedVariables(sourceDir, directory)) ?? {};
  const found = Object.entries(examples).flatMap(([name, value]) => {
    const scheme = postgresAddress.exec(value)?.[1];
    if (scheme === undefined || ofTests.test(name)) return [];
    return [{ name, scheme, address: value.slice(scheme.length).split(/[?\s]/)[0] }];
  });
  const own = found.find(({ name }) => name === "DATABASE_URL")?.address;
  const addresses = new Set(found.map(({ address }) => address));
  const ofProject = found.filter(({ address }) => addresses.size === 1 || address === own);
  return Object.fromEntries(ofProject.map(({ name, scheme }) => [name, scheme]));
}

/**
 * Returns the variables that a project wants to have set. DATABASE_URL is among them only if it may be the address of a PostgreSQL,
 * because such a project gets one.
 */
export async function wantedVariables(sourceDir: string, directory: string): Promise<string[]> {
  const { names = [], examples = {} } = (await expectedVariables(sourceDir, directory)) ?? {};
  const read = await readVariables(projectReader(sourceDir, directory));
  const isOtherDatabase = /^(?!postgres)\w[\w+]*:/.test(examples["DATABASE_URL"] ?? "");
  return [...new Set([...names, ...read])]
    .filter((name) => name !== "DATABASE_URL" || !isOtherDatabase)
    .slice(0, namesMax);
}
