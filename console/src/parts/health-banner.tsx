import { useMutation } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { CircleAlert, TriangleAlert } from "lucide-react";
import type { Deployment } from "../../../src/contract/deployments/deployment.ts";
import { mayPass } from "../../../src/domain/failures.ts";
import { useSession } from "../session.tsx";
import { causeOf, Said } from "./cause.tsx";
import { useShowRevisions } from "./deploy-button.tsx";
import { statusText } from "./status.tsx";
import { Ago } from "./time.tsx";
import { useToasts } from "./toasts.tsx";
import { attentionWords } from "./words.ts";

const quietReasons = ["NothingDeployed"];

/**
 * Says what is wrong with a deployment, since when and why, and leads to the next step. Empty while all is well.
 * `isShort`: the page shows the lines of the log itself.
 */
export function HealthBanner({ deployment, isShort }: { deployment: Deployment; isShort: boolean }) {
  const { status, reason, since, next_action: next } = deployment.health;
  if (!attentionWords.includes(status) || quietReasons.includes(reason ?? "")) return null;
  const isBad = status === "crash_looping" || status === "failed";
  const { title, rest, lines, variable } = causeOf(deployment.health);
  const Icon = isBad ? CircleAlert : TriangleAlert;
  return (
    <section className={`banner ${isBad ? "bad" : "warn"}`} aria-label="Health">
      <Icon size={17} />
      <div>
        <h2>
          {statusText(status)}
          {title !== "" && (
            <>
              : <Said text={title} />
            </>
          )}
        </h2>
        <p>
          {rest !== "" && (
            <>
              <Said text={/[.!?…]$/.test(rest) ? rest : `${rest}.`} />{" "}
            </>
          )}
          Began <Ago at={since} />. {next?.text}
        </p>
      </div>
      <div className="row">
        <BannerLinks deployment={deployment} variable={variable} isShort={isShort} />
      </div>
      {lines !== "" && !isShort && (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: scrollable content must be reachable with the keyboard.
        <pre tabIndex={0}>{lines}</pre>
      )}
    </section>
  );
}

interface LinksProps {
  deployment: Deployment;
  variable: string | null;
  isShort: boolean;
}

/** The ways on, at most three. The fix is the last one. */
function BannerLinks({ deployment, variable, isShort }: LinksProps) {
  const { mayChange } = useSession();
  const { health, tenant_id: tenantId, id, latest_revision_id: latest, active_revision_id: active } = deployment;
  const isRetried = mayChange && latest !== null && latest !== active && mayPass(health.failure?.code ?? "exited");
  const kind = health.next_action?.kind;
  if (kind === "check_listener")
    return (
      <>
        <Link to="/host/$page" params={{ page: "listeners" }} className="button small">
          Listeners
        </Link>
        {isRetried && <RetryButton deployment={deployment} />}
      </>
    );
  const to = "/o/$tenantId/host/deployments/$id/$part";
  const isBuild = kind === "read_build_log" || health.reason === "NewRevisionFailed";
  return (
    <>
      {kind === "read_log" && (
        <Link to={to} params={{ tenantId, id, part: "logs" }} className="button small">
          View logs
        </Link>
      )}
      {!isShort && (
        <Link
          to={to}
          params={{ tenantId, id, part: "revisions" }}
          search={latest === null || !isBuild ? {} : { revision: latest }}
          className="button small"
        >
          {isBuild ? "Build log" : health.can_roll_back ? "Roll back …" : "Revisions"}
        </Link>
      )}
      {variable !== null && mayChange && (
        <Link
          to={to}
          params={{ tenantId, id, part: "environment" }}
          search={{ variable }}
          className="button small primary"
        >
          Set {variable}
        </Link>
      )}
      {isRetried && <RetryButton deployment={deployment} />}
    </>
  );
}

/** Tries the newest revision again, which failed for a reason that may have passed. */
function RetryButton({ deployment }: { deployment: Deployment }) {
  const { client } = useSession();
  const { notifyError } = useToasts();
  const retry = useMutation({
    mutationFn: () => client.retryDeployment({ deployment_id: deployment.id }),
    onError: notifyError,
    onSuccess: useShowRevisions(deployment),
  });
  return (
    <button type="button" className="small primary" onClick={() => retry.mutate()} disabled={retry.isPending}>
      Retry
    </button>
  );
}
