import { Link } from "@tanstack/react-router";
import { CircleAlert, TriangleAlert } from "lucide-react";
import type { Deployment } from "../../../src/contract/deployments/deployment.ts";
import { statusText } from "./status.tsx";
import { Ago } from "./time.tsx";
import { attentionWords } from "./words.ts";

const quietReasons = ["NothingDeployed"];

/** Says what is wrong with a deployment, since when and why, and leads to the next step. Empty while all is well. */
export function HealthBanner({ deployment }: { deployment: Deployment }) {
  const { status, reason, message, since, next_action: next } = deployment.health;
  if (!attentionWords.includes(status) || quietReasons.includes(reason ?? "")) return null;
  const isBad = status === "crash_looping" || status === "failed";
  const [first = "", ...rest] = (message ?? "").trim().split("\n");
  const Icon = isBad ? CircleAlert : TriangleAlert;
  return (
    <section className={`banner ${isBad ? "bad" : "warn"}`} aria-label="Health">
      <Icon size={17} />
      <div>
        <h2>
          {statusText(status)}
          {first !== "" && `: ${first}`}
        </h2>
        <p>
          Began <Ago at={since} />. {next?.text}
        </p>
      </div>
      <div className="row">
        <BannerLink deployment={deployment} />
      </div>
      {rest.length > 0 && (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: scrollable content must be reachable with the keyboard.
        <pre tabIndex={0}>{rest.join("\n")}</pre>
      )}
    </section>
  );
}

function BannerLink({ deployment }: { deployment: Deployment }) {
  const { health, tenant_id: tenantId, id, latest_revision_id: latest } = deployment;
  const params = { tenantId, id };
  const kind = health.next_action?.kind;
  if (kind === "check_listener")
    return (
      <Link to="/host/$page" params={{ page: "listeners" }} className="button small">
        Listeners
      </Link>
    );
  const isBuild = kind === "read_build_log" || health.reason === "NewRevisionFailed";
  return (
    <>
      {kind === "read_log" && (
        <Link
          to="/o/$tenantId/host/deployments/$id/$part"
          params={{ ...params, part: "logs" }}
          className="button small"
        >
          View logs
        </Link>
      )}
      <Link
        to="/o/$tenantId/host/deployments/$id/$part"
        params={{ ...params, part: "revisions" }}
        search={latest === null || !isBuild ? {} : { revision: latest }}
        className="button small"
      >
        {isBuild ? "Build log" : "Revisions"}
      </Link>
    </>
  );
}
