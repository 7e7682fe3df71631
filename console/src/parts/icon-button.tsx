import { Tooltip } from "@base-ui/react/tooltip";
import type { ComponentProps, ReactNode } from "react";

/** A button that shows only an icon. Its name is its label and its tooltip. */
export function IconButton({
  name,
  icon,
  className = "",
  ...rest
}: { name: string; icon: ReactNode } & ComponentProps<"button">) {
  return (
    <Tooltip.Root>
      <Tooltip.Trigger
        render={<button type="button" {...rest} aria-label={name} className={`quiet icon-only small ${className}`} />}
      >
        {icon}
      </Tooltip.Trigger>
      <Tooltip.Portal>
        <Tooltip.Positioner sideOffset={6} className="positioner">
          <Tooltip.Popup className="tip">{name}</Tooltip.Popup>
        </Tooltip.Positioner>
      </Tooltip.Portal>
    </Tooltip.Root>
  );
}
