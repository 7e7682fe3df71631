import { readFile } from "node:fs/promises";
import path from "node:path";
import { denoConfigs } from "../../domain/config-path.ts";
import { denoLinks } from "../../domain/detection/deno-server.ts";
import { linkedDirectories } from "./linked-directories.ts";
import { workspaceRoot } from "./workspace-root.ts";

/**
 * Returns the directories outside its own that a JavaScript project needs: those of `file:` and `link:` dependencies, of the files
 * that its tsconfig.json extends, and of the `links` of Deno with the workspaces that build them. Those that do not exist are left
 * out, and the build fails with their name.
 */
export const nodePaths = (directory: string): Promise<string[]> => linkedDirectories(directory, pathsOf);

async function pathsOf(directory: string): Promise<string[]> {
  const read = (name: string) => readFile(path.join(directory, name), "utf8").catch(() => "");
  const [manifest, tsconfig] = await Promise.all([read("package.json"), read("tsconfig.json")]);
  const deno = await Promise.all(denoConfigs.map(read));
  const linked = denoLinks(deno.join("")).map((name) => path.resolve(directory, name));
  const workspaces = await Promise.all(linked.map(workspaceRoot));
  const packages = [...manifest.matchAll(/"(?:file|link):(\.\.?\/[^"\n]{1,200})"/g)].map(([, name = ""]) => name);
  const [, extended = ""] = /"extends"\s*:\s*("[^"\n]{1,200}"|\[[^\]]{0,1000}\])/.exec(tsconfig) ?? [];
  const bases = [...extended.matchAll(/"(\.\.\/[^"\n]{1,200})"/g)].map(([, name = ""]) => name);
  return [
    ...linked,
    ...workspaces.filter((root) => root !== null),
    ...packages.map((name) => path.resolve(directory, name)),
    ...bases.map((name) => path.dirname(path.resolve(directory, name))),
  ];
}
