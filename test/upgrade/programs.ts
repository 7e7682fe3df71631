import { execFile } from "node:child_process";
import { cp, mkdir, readdir, readFile, symlink, writeFile } from "node:fs/promises";
import path from "node:path";
import { promisify } from "node:util";
import { extract } from "tar";

const run = promisify(execFile);

/** The sources of one version of Pierhead. */
export interface Program {
  directory: string;
  version: string;
}

/** Files that a program needs besides the installed packages. */
const parts = ["src", "engines", "templates", "package.json"];

/** A migration as in a later release: it changes tables that every pass reads and writes. */
const migration = `-- additive
alter table deployments add column of_later integer not null default 7;
alter table revisions add column of_later text;
alter table events add column of_later text;
create index revisions_of_later on revisions (deployment_id, of_later);
create table later (deployment_id uuid primary key references deployments (id) on delete cascade, note text not null default '');
insert into later (deployment_id) select id from deployments;
`;

export const thisProgram = async (): Promise<Program> => ({ directory: ".", version: await versionOf(".") });

/** Returns the program at a commit, branch or tag of this repository, with the packages installed here. */
export async function programAt(ref: string, directory: string): Promise<Program> {
  await mkdir(directory, { recursive: true });
  const archive = path.join(directory, "program.tar");
  await run("git", ["archive", "--format=tar", `--output=${archive}`, ref, "--", ...parts]);
  await extract({ file: archive, cwd: directory });
  await linkPackages(directory);
  return { directory, version: await versionOf(directory) };
}

/** Returns this program with a higher version and one more migration, like the next release. */
export async function laterProgram(directory: string): Promise<Program> {
  for (const part of parts) await cp(part, path.join(directory, part), { recursive: true });
  await linkPackages(directory);
  const file = path.join(directory, "package.json");
  const description = JSON.parse(await readFile(file, "utf8")) as { version: string };
  const version = description.version.replace(/\d+$/, (patch) => String(Number(patch) + 1));
  await writeFile(file, JSON.stringify({ ...description, version }));
  await writeFile(path.join(directory, "src/store/engine/migrations/9000_later.sql"), migration);
  return { directory, version };
}

/** Returns the names of the later program's migrations that the earlier one cannot work with. */
export async function findUnknowable(earlier: Program, later: Program): Promise<string[]> {
  const namesOf = ({ directory }: Program) => readdir(path.join(directory, "src/store/engine/migrations"));
  const known = new Set(await namesOf(earlier));
  const unknown = (await namesOf(later)).filter((name) => !known.has(name));
  const texts = await Promise.all(
    unknown.map((name) => readFile(path.join(later.directory, "src/store/engine/migrations", name), "utf8")),
  );
  return unknown.filter((_, index) => !texts[index]?.startsWith("-- additive\n"));
}

async function versionOf(directory: string): Promise<string> {
  return JSON.parse(await readFile(path.join(directory, "package.json"), "utf8")).version;
}

const linkPackages = (directory: string) => symlink(path.resolve("node_modules"), path.join(directory, "node_modules"));
