import { Link, useNavigate } from "@tanstack/react-router";
import { Ellipsis, Gauge, History, KeyRound, ScrollText } from "lucide-react";
import { cloneElement, memo, type ReactElement, useState } from "react";
import type { DeploymentSummaries } from "../../../src/contract/deployments/summary.ts";
import type { Revision } from "../../../src/contract/revisions/revision.ts";
import { ActionMenu } from "./action-menu.tsx";
import { Avatar } from "./avatar.tsx";
import { shortCause } from "./cause.tsx";
import { authorOf, titleOf } from "./revision-words.tsx";
import { SourceIcon } from "./source-icon.tsx";
import { Status } from "./status.tsx";
import { Age, Ago } from "./time.tsx";
import { type DeploymentTraffic, TrafficCell } from "./traffic-cell.tsx";
import { type Deployment, sourceText, typeText } from "./words.ts";

type Summary = DeploymentSummaries["deployments"][number];

interface Props {
  row: Deployment;
  /** undefined: not read yet. */
  summary: Summary | undefined;
  traffic: DeploymentTraffic | undefined;
  isSelected: boolean;
  onSelect: ((id: string, isOn: boolean) => void) | undefined;
}

/** A deployment in the list: name and source, health and its cause, the last deploy, and the requests of a day. */
export const DeploymentRow = memo(function DeploymentRow({ row, summary, traffic, isSelected, onSelect }: Props) {
  return (
    <tr className={isSelected ? "selected" : ""}>
      {onSelect && (
        <td className="tick">
          <input
            type="checkbox"
            aria-label={`Select ${row.name}`}
            checked={isSelected}
            onChange={(event) => onSelect(row.id, event.target.checked)}
          />
        </td>
      )}
      <td className="who">
        <span className="name">
          <Link
            to="/o/$tenantId/host/deployments/$id"
            params={{ tenantId: row.tenant_id, id: row.id }}
            className="row-link"
          >
            {row.display_name ?? row.name}
          </Link>
          <Tags of={summary?.tags ?? []} />
        </span>
        <span className="softer clip" title={sourceText(row)}>
          <SourceIcon of={row.source} /> {sourceText(row)}
        </span>
      </td>
      <td className="health">
        <Status of={row.health.status} />
        <span
          className={row.health.message === null ? "softer clip" : "softer clip why"}
          title={row.health.message ?? undefined}
        >
          {row.health.message === null ? <HealthNote of={row} /> : shortCause(row.health)}
        </span>
      </td>
      <td className="last">
        <LastDeploy of={summary?.latest_revision ?? null} />
      </td>
      <td className="traffic">
        <TrafficCell traffic={traffic} />
      </td>
      <td className="more">
        <RowMenu row={row} />
      </td>
    </tr>
  );
});

const tagsShownMax = 2;

function Tags({ of: tags }: { of: Summary["tags"] }) {
  const more = tags.slice(tagsShownMax);
  const textsOf = (some: Summary["tags"]) => some.map(({ name, value }) => `${name}: ${value}`).join(", ");
  return (
    <>
      {tags.slice(0, tagsShownMax).map((tag) => (
        <span key={tag.tag_value_id} className="tag" title={textsOf([tag])}>
          <span className="sr">{tag.name}: </span>
          {tag.value}
        </span>
      ))}
      {more.length > 0 && (
        <span className="tag" title={textsOf(more)}>
          +{more.length}
        </span>
      )}
    </>
  );
}

function HealthNote({ of: { health, is_preview: isPreview, source_config: config } }: { of: Deployment }) {
  if (health.status === "sleeping") return <>Wakes with the next request</>;
  const type = isPreview ? "Preview" : config.deployment_type && typeText(config.deployment_type).split(",", 1)[0];
  return (
    <>
      for <Age since={health.since} />
      {type && ` · ${type}`}
    </>
  );
}

/** What the newest revision runs, who made it, and when. */
function LastDeploy({ of: revision }: { of: Revision | null }) {
  if (revision === null) return null;
  const author = authorOf(revision);
  const title = titleOf(revision);
  return (
    <>
      <span className="clip" title={title}>
        {title}
      </span>
      <span className="softer clip by">
        {author !== null && (
          <>
            <Avatar {...author} />
            <span className="clip">{author.name}</span> ·{" "}
          </>
        )}
        <Ago at={revision.created_at} />
      </span>
    </>
  );
}

/** The menu of a row exists from its first use on: fifty of them would take half of the time to draw the list. */
function RowMenu({ row }: { row: Deployment }) {
  const [isUsed, setUsed] = useState(false);
  const button = (
    <button type="button" className="quiet icon-only small" aria-label={`More for ${row.name}`} aria-haspopup="menu">
      <Ellipsis size={15} />
    </button>
  );
  if (isUsed) return <OpenedMenu row={row} trigger={button} />;
  return cloneElement(button, { "aria-expanded": false, onClick: () => setUsed(true) });
}

function OpenedMenu({ row, trigger }: { row: Deployment; trigger: ReactElement<Record<string, unknown>> }) {
  const navigate = useNavigate();
  const open = (part: string) => () =>
    void navigate({
      to: "/o/$tenantId/host/deployments/$id/$part",
      params: { tenantId: row.tenant_id, id: row.id, part },
    });
  return (
    <ActionMenu
      isOpenAtFirst
      trigger={trigger}
      actions={[
        { text: "Revisions", icon: <History size={14} />, act: open("revisions") },
        { text: "Logs", icon: <ScrollText size={14} />, act: open("logs") },
        { text: "Metrics", icon: <Gauge size={14} />, act: open("charts") },
        { text: "Variables", icon: <KeyRound size={14} />, act: open("environment") },
      ]}
    />
  );
}
