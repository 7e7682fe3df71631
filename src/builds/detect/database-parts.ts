import { type DatabasePart, usualDatabaseParts } from "../../domain/database-parts.ts";
import type { ProjectReader } from "../../domain/detection/project-sources.ts";
import { expectedVariables } from "./expected-variables.ts";
import { projectReader } from "./project-reader.ts";
import { readSourceTexts, settingsIn } from "./read-variables.ts";

const parts: Readonly<Record<string, DatabasePart>> = {
  ...{ HOST: "host", HOSTNAME: "host", SERVER: "host", PORT: "port", USER: "user", USERNAME: "user" },
  ...{ PASS: "password", PASSWORD: "password", NAME: "name", DB: "name", DATABASE: "name" },
};

const partName = /(?<![\w$])((?:POSTGRES|POSTGRESQL|PG|DB|DATABASE)_|PG)([A-Z]+)(?!\w)/g;

const onlyPartName = new RegExp(`^${partName.source}$`);

/** Prefixes that also stand for databases other than PostgreSQL. */
const general = new Set(["DB_", "DATABASE_"]);

const postgresDriver =
  /(?<![\w-])(?:psycopg2?(?:-binary)?|asyncpg|pg8000|aiopg)(?![\w-])|"(?:pg|postgres|pg-promise|@neondatabase\/serverless)"/;
const otherDriver =
  /(?<![\w-])(?:mysqlclient|pymysql|aiomysql|asyncmy|mysql-connector-python|pyodbc|pymssql|oracledb|cx_oracle)(?![\w-])|"(?:mysql2?|mariadb|mssql|tedious|oracledb)"/i;

const dependencyFiles =
  /^(?:package\.json|pyproject\.toml|Pipfile|setup\.py|environment\.ya?ml|requirements[\w.-]*\.txt)$/;

/**
 * Returns the variables in which a project expects the parts of its PostgreSQL's address, such as DB_HOST and DB_NAME. A project asks
 * for them if its example file names the host, or if its code reads the host without a default, or with one that no deployment can
 * mean: with another default it may have another database.
 */
export async function databaseParts(sourceDir: string, directory: string): Promise<Record<string, DatabasePart>> {
  const reader = projectReader(sourceDir, directory);
  const texts = await readSourceTexts(reader);
  const examples = (await expectedVariables(sourceDir, directory))?.names ?? [];
  const isPostgres = await usesPostgresOnly(reader);
  const names = [...texts, ...examples, ...texts.flatMap(settingsIn)].flatMap((text) =>
    [...text.matchAll(partName)].map(([name]) => name),
  );
  const named = [...new Set(names)].flatMap((name) => {
    const [, prefix = "", rest = ""] = name.match(onlyPartName) ?? [];
    const part = parts[rest];
    return part === undefined || (general.has(prefix) && !isPostgres) ? [] : [{ name, prefix, part }];
  });
  const hosts = named.filter(({ name, part }) => part === "host" && (examples.includes(name) || isAsked(name, texts)));
  const [own] = hosts;
  // The other parts may be read where no source names them, such as in a file of settings.
  return {
    ...Object.fromEntries(
      named.filter(({ prefix }) => prefix === own?.prefix).map(({ name, part }) => [name, part] as const),
    ),
    ...(hosts.some(({ name }) => name === "POSTGRES_HOST") && usualDatabaseParts),
  };
}

/** The default of a read, after the name of its variable. */
const defaultForm = /^(?:["']\s*,|["'\])!]*\s*(?:\?\?|\|\|))\s*(.{0,40})/;

/** A default that names the machine of a developer, or a container beside that of the project. */
const localDefault = /^(?:default\s*=\s*)?["'](?:localhost|127\.0\.0\.1|db|database|postgres|postgresql)["']/;

/** Whether the code reads a variable without a default, or with a local one. */
function isAsked(name: string, texts: readonly string[]): boolean {
  const read = new RegExp(
    String.raw`(?:getenv\(|\.get(?:OrThrow)?(?:<\w+>)?\(|environ\[|process\.env\.|process\.env\[|\b(?:env|config)(?:\.str)?\()["']?${name}\b`,
    "g",
  );
  return texts.some((text) =>
    [...text.matchAll(read)].some((match) => {
      const [, value] = defaultForm.exec(text.slice(match.index + match[0].length)) ?? [];
      return value === undefined || localDefault.test(value);
    }),
  );
}

/** Returns whether the dependencies have a driver of PostgreSQL and none of another database server. */
async function usesPostgresOnly(reader: ProjectReader): Promise<boolean> {
  const files = (await reader.list()).filter((file) => dependencyFiles.test(file));
  const texts = await Promise.all(files.map(async (file) => (await reader.read(file)) ?? ""));
  return texts.some((text) => postgresDriver.test(text)) && !texts.some((text) => otherDriver.test(text));
}
