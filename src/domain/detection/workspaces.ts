import path from "node:path";
import { tomlList, tomlSection } from "./toml-text.ts";

/**
 * Returns whether a workspace of npm, yarn, bun or pnpm has a member.
 * @param member directory, relative to the root of the workspace, with `/`.
 * @param files texts of the root's package.json and pnpm-workspace.yaml, empty if they do not exist.
 */
export function hasNodeMember(member: string, files: { manifest: string; pnpmWorkspace: string }): boolean {
  const { workspaces } = manifestOf(files.manifest);
  const listed = Array.isArray(workspaces) ? workspaces : (workspaces as { packages?: unknown } | undefined)?.packages;
  const sections = files.pnpmWorkspace.split(/^(?=\w)/m);
  const packages = sections.find((section) => section.startsWith("packages:")) ?? "";
  const ofPnpm = [...packages.matchAll(/[-[,]\s*(?:"([^"]+)"|'([^']+)'|([^\s"',[\]]+))/g)];
  return isListed(member, [
    ...(Array.isArray(listed) ? listed.filter((one) => typeof one === "string") : []),
    ...ofPnpm.map((match) => match[1] ?? match[2] ?? match[3] ?? ""),
  ]);
}

/** Returns whether a workspace of uv has a member. @param pyproject text of the root's pyproject.toml. */
export function hasUvMember(member: string, pyproject: string): boolean {
  const section = tomlSection(pyproject, "tool.uv.workspace");
  const excluded = tomlList(section, "exclude").map((pattern) => `!${pattern}`);
  return isListed(member, [...tomlList(section, "members"), ...excluded]);
}

function isListed(member: string, patterns: readonly string[]): boolean {
  const plain = patterns.map((pattern) => pattern.replace(/^(!?)\.\//, "$1").replace(/\/$/, ""));
  const matches = (pattern: string) => path.posix.matchesGlob(member, pattern);
  const isExcluded = plain.some((pattern) => pattern.startsWith("!") && matches(pattern.slice(1)));
  return !isExcluded && plain.some(matches);
}

function manifestOf(text: string): { workspaces?: unknown } {
  try {
    const manifest: unknown = JSON.parse(text);
    return typeof manifest === "object" && manifest !== null ? manifest : {};
  } catch {
    return {}; // the package manager reports what is wrong with it
  }
}
