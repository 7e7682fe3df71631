import { Fragment } from "react";
import { RunsOn } from "../parts/runs-on.tsx";
import { type Deployment, typeText } from "../parts/words.ts";

/** The addresses and ids of a deployment. */
export function Addresses({ deployment }: { deployment: Deployment }) {
  const { url, id, source_config: config, source_revision_config: source, image_version } = deployment;
  const facts = {
    Address: url === null ? "None yet" : <span className="mono">{url}</span>,
    ID: <span className="mono">{id}</span>,
    Type: config.deployment_type === null ? null : typeText(config.deployment_type),
    "Agent server": image_version === null ? null : `Version ${image_version}`,
    "Runs on": <RunsOn listenerId={config.listener_id} />,
    "Config file":
      source.langgraph_config_path === null ? null : <span className="mono">{source.langgraph_config_path}</span>,
  };
  return (
    <section className="card">
      <h2>About this deployment</h2>
      <dl className="facts">
        {Object.entries(facts).map(
          ([name, value]) =>
            value !== null && (
              <Fragment key={name}>
                <dt>{name}</dt>
                <dd>{value}</dd>
              </Fragment>
            ),
        )}
      </dl>
      <p className="softer">
        The address stays the same for all revisions. Traffic moves to a new revision when it is healthy.
      </p>
    </section>
  );
}
