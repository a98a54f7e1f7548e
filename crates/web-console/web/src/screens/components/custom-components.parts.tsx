import type { PanelProps, Parts } from '../../generic/resource.ts'
import { Import, ParametersView, RepositoryInput, RepositoryView, UsesInput, UsesView } from './parts.tsx'
import { Preview } from './preview.tsx'
import { UsedBy } from './used-by.tsx'

/** With other files, it starts again. */
const Shown = ({ instance }: PanelProps) => <Preview key={`${instance.index_url}`} component={instance} />

export const parts: Parts = {
  inputs: { repository: RepositoryInput, available_use: UsesInput },
  views: { repository: RepositoryView, available_use: UsesView, parameters: ParametersView },
  panels: [Import, Shown, UsedBy],
}
