import { useQuery } from "@tanstack/react-query";
import { ArrowUpRight } from "lucide-react";
import { Fragment, type ReactNode, useState } from "react";
import type { AuditEntry } from "../../../src/contract/administration/audit.ts";
import type { Deployment } from "../../../src/contract/deployments/deployment.ts";
import type { Revision } from "../../../src/contract/revisions/revision.ts";
import { useSession } from "../session.tsx";
import { ChangedFields } from "./changed-fields.tsx";
import { Tabs } from "./fields.tsx";
import { comparisonUrl } from "./git-links.ts";
import { authorOf, titleOf } from "./revision-words.tsx";

interface Change {
  name: string;
  before: unknown;
  after: unknown;
}

interface Compared {
  deployment: Deployment;
  before: Revision;
  after: Revision;
}

/** Fields of a revision that say which code it runs. The others are settings. */
const codeFields = ["source", "repo_ref", "repo_commit_sha", "image_uri", "source_tarball_path", "artifact_digest"];

function changesBetween(before: Revision, after: Revision): Change[] {
  const fieldsOf = (revision: Revision): Record<string, unknown> => {
    const { source, source_revision_config, artifact_digest, image_version, engine, rollout } = revision;
    return { source, ...source_revision_config, artifact_digest, image_version, engine, rollout };
  };
  const [old, now] = [fieldsOf(before), fieldsOf(after)];
  // `framework_config_path` is an alias of `langgraph_config_path`.
  const names = Object.keys(now).filter((name) => name !== "framework_config_path");
  return names
    .map((name) => ({ name, before: old[name] ?? null, after: now[name] ?? null }))
    .filter(({ before: was, after: is }) => JSON.stringify(was) !== JSON.stringify(is));
}

const parts = ["code", "variables", "settings"] as const;
type Part = (typeof parts)[number];
const partTexts = { code: "Code", variables: "Variables", settings: "Settings" };

/** The differences between two revisions. Variables and settings of the deployment come from the audit log. */
export function RevisionDiff(compared: Compared) {
  const { before, after } = compared;
  const changes = changesBetween(before, after);
  const code = changes.filter(({ name }) => codeFields.includes(name));
  const audit = useChanges(compared);
  const variables = audit.entries.filter(({ secrets }) => secrets !== null);
  const settings = [...changes.filter(({ name }) => !codeFields.includes(name)), ...audit.settings];
  const counts = { code: code.length, variables: variables.length, settings: settings.length };
  const [chosen, setChosen] = useState<Part>();
  // A change of variables only has nothing to show about its code.
  const part = chosen ?? parts.find((one) => counts[one] > 0) ?? "code";
  const shown: Record<Part, () => ReactNode> = {
    code: () => <Code {...compared} changes={code} />,
    variables: () => <Variables entries={variables} isKnown={audit.isKnown} />,
    settings: () =>
      settings.length === 0 ? (
        <p className="soft">The settings are the same.</p>
      ) : (
        <ChangedFields before="Before" changes={settings} />
      ),
  };
  return (
    <div className="diff">
      <Tabs
        label="What changed"
        value={part}
        onValue={setChosen}
        options={parts.map((value) => ({
          value,
          text: counts[value] === 0 ? `${partTexts[value]}: same` : partTexts[value],
        }))}
      />
      {shown[part]()}
    </div>
  );
}

/** The commits with their messages, and where their lines can be compared. */
function Code({ deployment, before, after, changes }: Compared & { changes: Change[] }) {
  const { repo_commit_sha: from } = before.source_revision_config;
  const { repo_commit_sha: to } = after.source_revision_config;
  const url = comparisonUrl(deployment.source_config.repo_url, from, to);
  if (changes.length === 0) return <p className="soft">The code is the same.</p>;
  return (
    <>
      {from !== to && (
        <p className="soft">
          {titleOf(before)} → <b>{titleOf(after)}</b>
          {authorOf(after) !== null && ` by ${authorOf(after)?.name}`}
        </p>
      )}
      <ChangedFields before="Before" changes={changes} />
      {url !== null && (
        <p>
          <a href={url} className="link" rel="noreferrer" target="_blank">
            Compare the files at {new URL(url).host} <ArrowUpRight size={13} className="in-text" />
          </a>
        </p>
      )}
    </>
  );
}

/** The entries of the audit log between two revisions. Only admins may read it. */
function useChanges({ deployment, before, after }: Compared) {
  const { client, mayAdminister } = useSession();
  const audit = useQuery({
    queryKey: ["deployment", deployment.id, "audit", before.id, after.id],
    queryFn: ({ signal }) =>
      client.listAuditLog(
        { deployment_id: deployment.id, since: before.created_at, until: laterThan(after.created_at), page_size: 100 },
        { signal },
      ),
    enabled: mayAdminister,
  });
  const entries = (audit.data?.items ?? []).filter((entry) => entry.created_at > before.created_at);
  return { entries, settings: settingsIn(entries), isKnown: !audit.isLoading };
}

/** The audit entry of a change is written shortly after its revision. */
const laterThan = (at: string) => new Date(Date.parse(at) + 1_000).toISOString();

/** Settings of the deployment that changed, each from its first to its last value. What a revision itself says is left out. */
function settingsIn(entries: readonly AuditEntry[]): Change[] {
  const found = new Map<string, Change>();
  for (const { changes } of entries.toReversed())
    for (const [path, { before, after }] of Object.entries(changes)) {
      if (!path.startsWith("source_config.")) continue;
      const name = path.slice("source_config.".length);
      found.set(name, { name, before: found.get(name)?.before ?? before, after });
    }
  return [...found.values()].filter(({ before, after }) => JSON.stringify(before) !== JSON.stringify(after));
}

function Variables({ entries, isKnown }: { entries: readonly AuditEntry[]; isKnown: boolean }) {
  const { mayAdminister } = useSession();
  if (!mayAdminister) return <p className="soft">Admins see here which variables changed.</p>;
  if (!isKnown) return null;
  if (entries.length === 0) return <p className="soft">The variables are the same.</p>;
  return (
    <ul className="plain">
      {entries.map(({ id, secrets, actor_name, actor }) => (
        <li key={id}>
          {actor_name ?? actor} <ChangedNames {...(secrets ?? {})} />
        </li>
      ))}
    </ul>
  );
}

function ChangedNames({ added = [], removed = [], changed = [] }: Record<string, string[]>) {
  const named = Object.entries({ added, removed, changed }).filter(([, names]) => names.length > 0);
  if (named.length === 0) return "changed the variables";
  return named.map(([word, names], index) => (
    <Fragment key={word}>
      {index > 0 && "; "}
      {word} <code>{names.join(", ")}</code>
    </Fragment>
  ));
}
