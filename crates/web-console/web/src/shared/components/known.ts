// The components and repositories that there are. The API lists components alone, so the log is asked, too.

import { useQuery } from '@tanstack/react-query'
import { page, wrote } from '../../api/query.ts'
import { session } from '../../api/session.ts'
import type { Use } from '../../api/shapes.ts'
import { known } from './log.ts'

export const COMPONENTS = '/api/custom-components/'
export const REPOSITORIES = `${COMPONENTS}repository/`
export const ROUTE = '/admin/components'
const LOG = '/api/administration/log/'
/** As many lines as the API gives at once; a build has 100 components and 200 repositories. */
const MOST = 1000

export const USES: Use[] = [
  'landing_page',
  'object_class_create_form',
  'object_class_summary_form',
  'object_class_standalone_form',
  'task_template_form',
]

const ofLog = (action: string) =>
  page(LOG, `resource=custom_component_repositories&action=${action}&ordering=-id&limit=${MOST}`)

export function useComponents() {
  return useQuery(page(COMPONENTS, `ordering=name&limit=${MOST}`))
}

export function useRepositories() {
  const mayReadLog = session()?.permissions?.administration_log?.list === true
  const components = useComponents()
  const made = useQuery({ ...ofLog('create'), enabled: mayReadLog })
  const deleted = useQuery({ ...ofLog('delete'), enabled: mayReadLog })
  const isThere = components.data && (!mayReadLog || (made.data && deleted.data))
  return {
    data: isThere
      ? known(components.data?.results ?? [], made.data?.results ?? [], deleted.data?.results ?? [])
      : undefined,
    reading: [components, made, deleted],
  }
}

/** After a repository was made or imported again. */
export const wroteRepository = () => wrote(COMPONENTS, LOG)
/** After one was deleted: what is asked for anew is the log alone, since the repository itself is no more. */
export const deletedRepository = () => wrote(LOG)
