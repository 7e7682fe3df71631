/**
 * Types of `--json` answers that are not types of the API, in the notation of `CommandSpec.json`: `string`, `number`, `boolean`,
 * `object`, `any`, `null`, `true`, "text", `[T]` for a list, `A | B`, `{"key": T, "optional"?: T}`, and names of types.
 */
export const answerTypes: Readonly<Record<string, string>> = {
  Error:
    '{"message": string, "because": string | null, "hints": [string], "request_id": string | null, "exit_code": number}',
  Followed: '{"deployment": Deployment, "revision": Revision | null, "elapsed_ms": number, "error"?: Error}',
  Change:
    '{"name": string, "action": "create" | "change" | "delete", "fields": [{"field": string, "from": any, "to": any}], "variables": {"set": [string], "removed": [string]}}',
  DryRun: '{"dry_run": true, "changes": [Change], "effects": [string]}',
};
