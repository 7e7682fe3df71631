// npm run client-package [-- DIRECTORY]: makes dist/pierhead-client, or that directory: the command and the client without the server, for CI jobs and laptops that
// only call servers. It has the modules of the built program that the command line can reach without running a server.
import { cpSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { root } from "./ensure.mjs";

const built = path.join(root, "dist");
const target = path.resolve(process.argv[2] ?? path.join(built, "pierhead-client"));
const own = JSON.parse(readFileSync(path.join(root, "package.json"), "utf8"));

/**
 * Modules that run a server, a listener or a migration, and commands whose packages are larger than all others together: `mcp` and
 * those of databases, `move` among them. Such a command then names the package that has it.
 */
const ofServer =
  /^(server\/(?!tuning\/)|telemetry\/|provision\/|mcp\/|cli\/agents\/mcp\.js|cli\/server\/database\.js|cli\/move\/(?!move-table\.js))/;

const modules = new Set();
const packages = new Set();
for (const entry of ["main.js", "client/client.js"]) collect(entry);

rmSync(target, { recursive: true, force: true });
for (const file of modules) {
  for (const one of [file, file.replace(/\.js$/, ".d.ts")]) {
    if (!existsSync(path.join(built, one))) continue;
    mkdirSync(path.dirname(path.join(target, "dist", one)), { recursive: true });
    cpSync(path.join(built, one), path.join(target, "dist", one));
  }
}
cpSync(path.join(root, "templates"), path.join(target, "templates"), { recursive: true });
cpSync(path.join(root, "LICENSE"), path.join(target, "LICENSE"));
const { version, license, type, engines, bin } = own;
const dependencies = Object.fromEntries(Object.entries(own.dependencies).filter(([name]) => packages.has(name)));
const manifest = {
  name: "pierhead-client",
  version,
  description: "The pierhead command and the client for TypeScript, without the server.",
  ...{ license, type, engines, bin },
  exports: { ".": "./dist/client/client.js", "./client": "./dist/client/client.js" },
  files: ["dist", "templates", "LICENSE"],
  dependencies,
};
writeFileSync(path.join(target, "package.json"), `${JSON.stringify(manifest, null, 2)}\n`);
const about = `# pierhead-client

The \`pierhead\` command and the client for TypeScript, without the server: what a laptop or a CI job needs to use a server elsewhere.
The package \`pierhead\` has the server, too. Both install the command \`pierhead\`, so install one of them.
`;
writeFileSync(path.join(target, "README.md"), about);
console.log(
  `made ${path.relative(root, target)}: ${modules.size} modules, packages ${Object.keys(dependencies).join(", ")}`,
);

/** Adds a module and what it imports, statically or on demand. */
function collect(file) {
  if (modules.has(file) || ofServer.test(file)) return;
  modules.add(file);
  const text = readFileSync(path.join(built, file), "utf8");
  for (const [, specifier] of text.matchAll(/(?:\bfrom\s*|\bimport\s*\(?\s*)"([^"]+)"/g)) {
    if (specifier.startsWith(".")) collect(path.posix.join(path.posix.dirname(file), specifier));
    else if (!specifier.startsWith("node:"))
      packages.add(specifier.split("/", specifier.startsWith("@") ? 2 : 1).join("/"));
  }
}
