import { type Static, Type } from "typebox";
import { given, literals, nullable, timestamp } from "../schema.ts";

const patterns = (description: string) =>
  nullable(
    Type.Array(Type.String({ minLength: 1, maxLength: 256 }), {
      minItems: 1,
      maxItems: 100,
      examples: [["agents/**", "*.json"]],
    }),
    description,
  );

export const PreviewTrigger = literals(["all", "label"]);

const trigger = literals(PreviewTrigger.enum, { description: "all: every pull request; label: those with the label." });
const label = Type.String({ minLength: 1, maxLength: 128, examples: ["preview"] });
const idleTtlHours = Type.Integer({
  minimum: 1,
  maximum: 8_760,
  description: "Deleted after so long without a commit or a request.",
});
const previewsMax = Type.Integer({ minimum: 1, maximum: 100, description: "At the same time." });

/** Deployments of pull requests (contract 10.2). */
export const PreviewSettings = Type.Object(
  { enabled: Type.Boolean(), trigger, label, idle_ttl_hours: idleTtlHours, max_previews: previewsMax },
  { $id: "PreviewSettings" },
);
export type PreviewSettings = Static<typeof PreviewSettings>;

export const previewDefaults: PreviewSettings = {
  ...{ enabled: true, trigger: "all", label: "preview", idle_ttl_hours: 72, max_previews: 5 },
};

/** What is not said is as it was; at first as in `previewDefaults`. */
export const PreviewSettingsInput = Type.Object(
  {
    enabled: given(Type.Boolean()),
    trigger: given(trigger, "Default all."),
    label: given(label, "Default preview."),
    idle_ttl_hours: given(idleTtlHours, "Default 72."),
    max_previews: given(previewsMax, "Default 5."),
  },
  { $id: "PreviewSettingsInput" },
);

/** What was last seen of the branch. */
export const FollowedBranch = Type.Object(
  {
    ref: Type.String({ examples: ["main"] }),
    commit_sha: nullable(Type.String(), "null: there was no such branch."),
    looked_at: timestamp(),
    next_look_at: timestamp("At the latest; a message of the host makes it sooner."),
    error: nullable(Type.String(), "Why the last look, or what followed from it, did not succeed."),
  },
  { $id: "FollowedBranch" },
);
export type FollowedBranch = Static<typeof FollowedBranch>;

export const GitSettings = Type.Object(
  {
    include_paths: patterns("Patterns as in .gitignore: only a push that changes such a file builds. null: any."),
    exclude_paths: patterns("Files that do not count, whatever the patterns above say."),
    preview: nullable(PreviewSettings, "null: pull requests are left alone."),
    followed: nullable(FollowedBranch, "null: no branch is followed, or it was not looked at yet."),
  },
  { $id: "GitSettings", description: "What a deployment does with pushes and pull requests." },
);
export type GitSettings = Static<typeof GitSettings>;

export const PatchGitSettings = Type.Object(
  {
    include_paths: Type.Optional(GitSettings.properties.include_paths),
    exclude_paths: Type.Optional(GitSettings.properties.exclude_paths),
    preview: given(PreviewSettingsInput, "null switches previews off; those that are there are deleted."),
  },
  { $id: "PatchGitSettings", examples: [{ include_paths: ["agents/support/**"] }] },
);
export type PatchGitSettings = Static<typeof PatchGitSettings>;
