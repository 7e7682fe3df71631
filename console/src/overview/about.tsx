import type { Revision } from "../../../src/contract/revisions/revision.ts";
import { engineReasons, engines } from "../../../src/domain/engines.ts";
import { CopyText } from "../parts/address.tsx";
import { RunsOn } from "../parts/runs-on.tsx";
import { SourceIcon } from "../parts/source-icon.tsx";
import { shortId } from "../parts/text.ts";
import { type Deployment, refText, repositoryText, sourceText, typeText } from "../parts/words.ts";
import { CardHead, PartLink } from "./card-head.tsx";

/** The facts of a deployment that do not change with its revisions. */
export function About({ deployment, served }: { deployment: Deployment; served: Revision | undefined }) {
  const { engine = null, engine_because: because = null } = served ?? {};
  const { source_config: config, source_revision_config: revision, image_version: version } = deployment;
  const type = deployment.is_preview ? "Preview" : config.deployment_type;
  const size = sizeText(config.resource_spec);
  return (
    <section className="card" aria-label="About">
      <CardHead title="About">
        <PartLink deployment={deployment} part="settings" text="Settings" />
      </CardHead>
      <dl className="facts">
        <dt>Source</dt>
        <dd>
          <SourceIcon of={deployment.source} size={13} />{" "}
          {config.repo_url === null ? sourceText(deployment) : <Repository url={config.repo_url} />}
        </dd>
        {deployment.source === "github" && (
          <>
            <dt>Branch</dt>
            <dd>
              {refText(revision.repo_ref ?? "")}{" "}
              <span className="tag">{config.build_on_push ? "deploys on push" : "deploys by hand"}</span>
            </dd>
          </>
        )}
        {revision.langgraph_config_path !== null && (
          <>
            <dt>Config</dt>
            <dd className="mono">{revision.langgraph_config_path}</dd>
          </>
        )}
        {type !== null && (
          <>
            <dt>Type</dt>
            <dd>{typeText(type)}</dd>
          </>
        )}
        {config.listener_id != null && (
          <>
            <dt>Runs on</dt>
            <dd>
              <RunsOn listenerId={config.listener_id} />
            </dd>
          </>
        )}
        {size !== "" && (
          <>
            <dt>Size</dt>
            <dd>{size}</dd>
          </>
        )}
        {version !== null && (
          <>
            <dt>Agent server</dt>
            <dd>Version {version}</dd>
          </>
        )}
        {engine !== null && engine !== "own" && (
          <>
            <dt>Threads and runs</dt>
            <dd>
              {engines[engine].title}
              {because !== null && <span className="softer"> ({engineReasons[because]})</span>}
            </dd>
          </>
        )}
        <dt>Variables</dt>
        <dd>{deployment.secrets.length + (deployment.secret_references?.length ?? 0)}</dd>
        <dt>ID</dt>
        <dd>
          <CopyText name="ID" text={deployment.id} shown={shortId(deployment.id)} />
        </dd>
      </dl>
    </section>
  );
}

/** A repository, as a link if a browser can open its address. */
function Repository({ url }: { url: string }) {
  const text = repositoryText(url);
  if (!/^https?:\/\//.test(url)) return <span title={url}>{text}</span>;
  return (
    <a href={url.replace(/\.git$/, "")} className="link" rel="noreferrer" title={url}>
      {text}
    </a>
  );
}

/** Returns what a replica may use and how many there are. "": the deployment has the usual size. */
function sizeText(spec: Deployment["source_config"]["resource_spec"]): string {
  const { cpu, memory_mb: memory, min_scale: min, max_scale: max } = spec ?? {};
  const parts = [
    cpu == null ? "" : `${cpu} CPU`,
    memory == null ? "" : memory >= 1_024 ? `${Number((memory / 1_024).toFixed(1))} GiB` : `${memory} MiB`,
    min == null || max == null
      ? ""
      : min === max
        ? `${max} ${max === 1 ? "replica" : "replicas"}`
        : `${min} to ${max} replicas`,
  ];
  return parts.filter((part) => part !== "").join(" · ");
}
