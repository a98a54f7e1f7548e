// The components and repositories. The API lists components only, so repositories come from the log.

import { useQuery } from '@tanstack/react-query'
import { invalidate, page } from '../../api/query.ts'
import { session } from '../../api/session.ts'
import type { Use } from '../../api/shapes.ts'
import { repositoriesIn } from './log.ts'

export const COMPONENTS = '/api/custom-components/'
export const REPOSITORIES = `${COMPONENTS}repository/`
export const ROUTE = '/admin/components'
const LOG = '/api/administration/log/'
/** The maximum number of lines in an answer; a build has 100 components and 200 repositories. */
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
  const createdLines = useQuery({ ...ofLog('create'), enabled: mayReadLog })
  const deleted = useQuery({ ...ofLog('delete'), enabled: mayReadLog })
  const isThere = components.data && (!mayReadLog || (createdLines.data && deleted.data))
  return {
    data: isThere
      ? repositoriesIn(components.data?.results ?? [], createdLines.data?.results ?? [], deleted.data?.results ?? [])
      : undefined,
    reading: [components, createdLines, deleted],
  }
}

/** Refetches after the creation or an import of a repository. */
export const invalidateRepository = () => invalidate(COMPONENTS, LOG)
/** After a deletion only the log is read again, because the repository does not exist any more. */
export const invalidateLog = () => invalidate(LOG)
