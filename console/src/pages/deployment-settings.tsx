import { Link, useLocation } from "@tanstack/react-router";
import { useEffect } from "react";
import { Addresses } from "../deployment-settings/addresses.tsx";
import { AlertRules } from "../deployment-settings/alert-rules.tsx";
import { CustomAddress } from "../deployment-settings/custom-address.tsx";
import { DeleteDeployment } from "../deployment-settings/delete-deployment.tsx";
import { General } from "../deployment-settings/general.tsx";
import { Scale } from "../deployment-settings/scale.tsx";
import { Source } from "../deployment-settings/source.tsx";
import { Notice } from "../parts/notices.tsx";
import type { Deployment } from "../parts/words.ts";
import { useSession } from "../session.tsx";

/** The settings of a deployment, its addresses, and its deletion, beside links to each card. */
export function DeploymentSettingsPart({ deployment }: { deployment: Deployment }) {
  const { mayChange } = useSession();
  const { id, tenant_id: tenantId, source } = deployment;
  const { hash } = useLocation();
  useCardInView(hash);
  const cards = [
    { part: "about", text: "About", Card: Addresses, isShown: true },
    {
      part: "address",
      text: "Custom address",
      Card: CustomAddress,
      isShown: mayChange && source === "external_docker",
    },
    { part: "general", text: "General", Card: General, isShown: mayChange },
    { part: "source", text: "Source", Card: Source, isShown: mayChange && source === "github" },
    { part: "replicas", text: "Replicas", Card: Scale, isShown: mayChange },
    { part: "alerts", text: "Alert rules", Card: AlertRules, isShown: true },
    { part: "delete", text: "Delete", Card: DeleteDeployment, isShown: mayChange },
  ].filter(({ isShown }) => isShown);
  return (
    <div className="settings deployment-settings">
      <nav aria-label="Settings of the deployment">
        {cards.map(({ part, text }) => (
          <Link
            key={part}
            to="/o/$tenantId/host/deployments/$id/$part"
            params={{ tenantId, id, part: "settings" }}
            hash={part}
            activeOptions={{ includeHash: true }}
            className="side-link"
          >
            {text}
          </Link>
        ))}
      </nav>
      <div className="stack">
        {cards.map(({ part, Card }) => (
          <div key={part} id={part} className="settings-card">
            <Card deployment={deployment} />
          </div>
        ))}
        {!mayChange && <Notice>Your role is read-only. Ask an admin for the deployer role to change settings.</Notice>}
      </div>
    </div>
  );
}

const userActs = ["wheel", "touchmove", "keydown", "pointerdown"] as const;

/** Scrolls to the card in the address, and again when cards above it get their contents, until the user acts. */
function useCardInView(id: string): void {
  useEffect(() => {
    const card = document.getElementById(id);
    if (card?.parentElement == null) return;
    const observer = new ResizeObserver(() => void card.scrollIntoView());
    observer.observe(card.parentElement);
    const end = () => observer.disconnect();
    for (const act of userActs) addEventListener(act, end, { once: true, passive: true });
    return () => {
      end();
      for (const act of userActs) removeEventListener(act, end);
    };
  }, [id]);
}
