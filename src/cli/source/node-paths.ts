import { readdir, readFile } from "node:fs/promises";
import path from "node:path";
import { denoConfigs } from "../../domain/config-path.ts";
import { denoLinks } from "../../domain/detection/deno-server.ts";
import { linkedDirectories } from "./linked-directories.ts";
import { isWithin, repositoryOf } from "./repository.ts";
import { workspaceRoot } from "./workspace-root.ts";

/**
 * Returns the directories outside its own that a JavaScript project needs: those of `file:` and `link:` dependencies, those that its
 * tsconfig.json and the files beside it name, and of the `links` of Deno with the workspaces that build them. Those that do not exist
 * are left out, and the build fails with their name.
 */
export const nodePaths = (directory: string): Promise<string[]> => linkedDirectories(directory, pathsOf);

async function pathsOf(directory: string): Promise<string[]> {
  const read = (name: string) => readFile(path.join(directory, name), "utf8").catch(() => "");
  const [manifest, typescript] = await Promise.all([read("package.json"), typescriptPaths(directory)]);
  const deno = await Promise.all(denoConfigs.map(read));
  const linked = denoLinks(deno.join("")).map((name) => path.resolve(directory, name));
  const workspaces = await Promise.all(linked.map(workspaceRoot));
  const packages = [...manifest.matchAll(/"(?:file|link):(\.\.?\/[^"\n]{1,200})"/g)].map(([, name = ""]) => name);
  return [
    ...linked,
    ...workspaces.filter((root) => root !== null),
    ...packages.map((name) => path.resolve(directory, name)),
    ...typescript,
  ];
}

/** A path to the outside in a tsconfig.json: what it extends, includes, refers to, or has as an alias, but not where results go. */
const typescriptPath =
  /(?<!"(?:outDir|outFile|declarationDir|tsBuildInfoFile|baseUrl|rootDir)"\s{0,9}:\s{0,9})"(\.\.\/[^"\n*]{0,200})/g;

/** What a configuration leaves out, such as build results of the directories beside the project. */
const excluded = /"exclude"\s{0,9}:\s{0,9}\[[^\]]{0,10000}\]/g;

/** A pattern such as `../*.ts`. Outside a repository, the directory above has other projects of the user. */
const allAbove = /^(?:\.\.\/)+$/;

const typescriptConfigsMax = 10;

/** Returns the directories that `tsconfig.json`, `tsconfig.app.json` and the like name outside the project. */
async function typescriptPaths(directory: string): Promise<string[]> {
  const names = (await readdir(directory).catch(() => [])).filter((name) =>
    /^tsconfig(?:[\w.-]{0,40})\.json$/.test(name),
  );
  const texts = await Promise.all(
    names.slice(0, typescriptConfigsMax).map((name) => readFile(path.join(directory, name), "utf8").catch(() => "")),
  );
  const repository = await repositoryOf(directory);
  return texts
    .flatMap((text) => [...text.replaceAll(excluded, "").matchAll(typescriptPath)].map(([, name = ""]) => name))
    .filter((name) => !name.includes("node_modules"))
    .map((name) => ({ name, full: path.resolve(directory, /\.\w+$/.test(name) ? path.dirname(name) : name) }))
    .filter(({ name, full }) => !allAbove.test(name) || (repository !== null && isWithin(repository, full)))
    .map(({ full }) => full);
}
