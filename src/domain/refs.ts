import { errors } from "../contract/error.ts";

/** Git refs as this API writes them: a bare branch name, `refs/tags/<tag>`, or a commit hash (contract 4.3). */

/** Returns a ref in one spelling: `refs/heads/x` becomes `x`. */
export function normalizeRef(ref: string): string {
  return ref.startsWith("refs/heads/") ? ref.slice("refs/heads/".length) : ref;
}

export function isTag(ref: string): boolean {
  return ref.startsWith("refs/tags/");
}

/** Returns whether a ref may be a commit hash. A branch of that name takes precedence. */
export function looksLikeCommit(ref: string): boolean {
  return /^[0-9a-f]{7,40}$/.test(ref);
}

/** Checks a ref. @throws ApiError 400 `invalidField` when git could not have such a ref. */
export function checkRef(field: string, ref: string): void {
  if (!isValidRef(ref)) throw errors.invalidField(field, "must be a branch name, refs/tags/<tag> or a commit hash.");
}

/** Checks ref names as `git check-ref-format` does, and refuses a leading dash, so that a ref is never taken for an option. */
export function isValidRef(ref: string): boolean {
  if (ref.length === 0 || ref.length > 255 || ref === "@") return false;
  // biome-ignore lint/suspicious/noControlCharactersInRegex: git forbids control characters in ref names.
  if (/[\u0000-\u0020\u007f~^:?*[\\]|\.\.|@\{|\/\/|^[-/]|[/.]$/.test(ref)) return false;
  return (
    ref.split("/").every((part) => !part.startsWith(".") && !part.endsWith(".lock")) && !/^refs\/tags\/?$/.test(ref)
  );
}
