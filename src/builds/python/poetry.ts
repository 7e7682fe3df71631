/**
 * Returns the dependencies of a `[tool.poetry.dependencies]` table as requirements (PEP 508), for a project that Poetry
 * itself does not install here. Optional packages belong to extras and are omitted.
 * @param section text of the table.
 */
export function poetryRequirements(section: string): string[] {
  const lines = section.split("\n").map((line) => line.replace(/\s+#.*$/, "").trim());
  return lines.flatMap((line) => {
    const [, name, value] = /^"?([\w.-]+)"?\s*=\s*(.+)$/.exec(line) ?? [];
    if (name === undefined || value === undefined || name === "python") return [];
    const [, plain] = /^["']([^"']*)["']$/.exec(value) ?? [];
    if (plain !== undefined) return [`${name}${versionsOf(plain)}`];
    if (!value.startsWith("{") || /optional\s*=\s*true/.test(value)) return [];
    return [fromTable(name, value)];
  });
}

function fromTable(name: string, table: string): string {
  const field = (key: string) => {
    const [, double, single] = new RegExp(`\\b${key}\\s*=\\s*(?:"([^"]*)"|'([^']*)')`).exec(table) ?? [];
    return double ?? single;
  };
  const [, list = ""] = /\bextras\s*=\s*\[([^\]]*)\]/.exec(table) ?? [];
  const extras = [...list.matchAll(/["']([^"']+)["']/g)].map((match) => match[1]);
  const full = extras.length === 0 ? name : `${name}[${extras.join(",")}]`;
  const [git, url, local] = [field("git"), field("url"), field("path")];
  const ref = field("ref") ?? field("rev") ?? field("tag") ?? field("branch");
  if (git !== undefined) return `${full} @ git+${git}${ref === undefined ? "" : `@${ref}`}`;
  if (url !== undefined) return `${full} @ ${url}`;
  if (local !== undefined) return `./${local}`;
  const markers = field("markers");
  return `${full}${versionsOf(field("version") ?? "*")}${markers === undefined ? "" : ` ; ${markers}`}`;
}

/** Converts Poetry's `^1.2`, `~1.2` and `1.2` to comparisons. */
function versionsOf(text: string): string {
  return text
    .split(",")
    .map((part) => part.trim())
    .filter((part) => part !== "*" && part !== "")
    .map((part) => {
      if (part.startsWith("^")) return range(part.slice(1).trim(), caretPosition);
      if (/^~(?!=)/.test(part)) return range(part.slice(1).trim(), (parts) => Math.min(1, parts.length - 1));
      return /^\d/.test(part) ? `==${part}` : part;
    })
    .join(",");
}

/** The first part that is not zero may not grow. */
function caretPosition(parts: number[]): number {
  const at = parts.findIndex((part) => part > 0);
  return at === -1 ? parts.length - 1 : at;
}

function range(version: string, positionOf: (parts: number[]) => number): string {
  const parts = version.split(".").map((part) => Number.parseInt(part, 10) || 0);
  const at = positionOf(parts);
  const end = parts.slice(0, at + 1).map((part, index) => (index === at ? part + 1 : part));
  return `>=${version},<${end.join(".")}`;
}
