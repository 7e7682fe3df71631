import { Link, useNavigate } from "@tanstack/react-router";
import { Ellipsis, Gauge, History, KeyRound, ScrollText } from "lucide-react";
import { ActionMenu } from "./action-menu.tsx";
import { SourceIcon } from "./source-icon.tsx";
import { Status } from "./status.tsx";
import { Ago } from "./time.tsx";
import { type Deployment, sourceText, typeText } from "./words.ts";

interface Props {
  row: Deployment;
  isSelected: boolean;
  onSelect: ((id: string, isOn: boolean) => void) | undefined;
}

/** A deployment in the list: name and source, health and its cause, type, and the last change. */
export function DeploymentRow({ row, isSelected, onSelect }: Props) {
  const type = row.is_preview ? "Preview" : row.source_config.deployment_type;
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
        <Link
          to="/o/$tenantId/host/deployments/$id"
          params={{ tenantId: row.tenant_id, id: row.id }}
          className="row-link"
        >
          {row.display_name ?? row.name}
        </Link>
        <span className="softer clip" title={sourceText(row)}>
          <SourceIcon of={row.source} /> {sourceText(row)}
        </span>
      </td>
      <td className="health">
        <Status of={row.health.status} />
        <span className="softer clip" title={row.health.message ?? undefined}>
          {row.health.message ?? <HealthNote of={row} />}
        </span>
      </td>
      <td className="type">{type !== null && <span className="tag">{typeText(type ?? "")}</span>}</td>
      <td className="updated softer">
        <Ago at={row.updated_at} />
      </td>
      <td className="more">
        <RowMenu row={row} />
      </td>
    </tr>
  );
}

function HealthNote({ of: { health } }: { of: Deployment }) {
  if (health.status === "sleeping") return <>Wakes with the next request</>;
  return (
    <>
      began <Ago at={health.since} />
    </>
  );
}

function RowMenu({ row }: { row: Deployment }) {
  const navigate = useNavigate();
  const open = (part: string) => () =>
    void navigate({
      to: "/o/$tenantId/host/deployments/$id/$part",
      params: { tenantId: row.tenant_id, id: row.id, part },
    });
  return (
    <ActionMenu
      trigger={
        <button type="button" className="quiet icon-only small" aria-label={`More for ${row.name}`}>
          <Ellipsis size={15} />
        </button>
      }
      actions={[
        { text: "Revisions", icon: <History size={14} />, act: open("revisions") },
        { text: "Logs", icon: <ScrollText size={14} />, act: open("logs") },
        { text: "Metrics", icon: <Gauge size={14} />, act: open("charts") },
        { text: "Variables", icon: <KeyRound size={14} />, act: open("environment") },
      ]}
    />
  );
}
