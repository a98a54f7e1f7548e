import type { Parts } from '../../generic/resource.ts'
import { counts, NEEDED_FIELDS } from './plan.ts'
import { Needed, PlanPanel, Reminders, RemindersView, RenewalsView } from './plan-text.tsx'
import { Creation, PluginConfig, PluginConfigView } from './plugin-config.tsx'

export const parts: Parts = {
  inputs: {
    ...Object.fromEntries(NEEDED_FIELDS.map((alias) => [alias, Needed])),
    plugin_config: PluginConfig,
    task_creation: Creation,
    reminders: Reminders,
  },
  views: { plugin_config: PluginConfigView, reminders: RemindersView, renewals: RenewalsView },
  panels: [PlanPanel],
  counts,
}
