// A custom component on a page. For now its name alone stands there.

import { useQuery } from '@tanstack/react-query'
import { page } from '../api/query.ts'
import { session } from '../api/session.ts'
import css from '../kit/controls.module.css'
import { t } from '../texts.ts'

export interface ComponentFrameProps {
  component: number
  use:
    | 'landing_page'
    | 'object_class_create_form'
    | 'object_class_summary_form'
    | 'object_class_standalone_form'
    | 'task_template_form'
  parameters?: Record<string, unknown>
}

export function ComponentFrame({ component }: ComponentFrameProps) {
  const mayList = session()?.permissions?.custom_component?.list === true
  const { data } = useQuery({ ...page('/api/custom-components/', `id=${component}&limit=1`), enabled: mayList })
  return <p className={css.notice}>{t('forms.component', { name: `${data?.results[0]?.name ?? component}` })}</p>
}
