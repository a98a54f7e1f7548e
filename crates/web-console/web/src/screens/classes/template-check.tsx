// The check of a file as a template: each merge field with its place, and whether it is known.

import { useQueries, useQuery } from '@tanstack/react-query'
import { anything } from '../../api/query.ts'
import { call, Refusal } from '../../api/request.ts'
import type { Instance, MergeField, TemplateCheck } from '../../api/shapes.ts'
import { Failure } from '../../generic/failure.tsx'
import generic from '../../generic/generic.module.css'
import css from '../../kit/controls.module.css'
import { Tag } from '../../kit/values.tsx'
import { type Key, t } from '../../texts.ts'

/** The maximum number of shown fields: a template may have 10,000. */
const MOST = 500

/** The names of the classes whose records a document reads. A class that the caller may not view has no name here. */
function useNames(fields: MergeField[]): Map<number, string> {
  const ids = [...new Set(fields.flatMap(({ object_class }) => object_class ?? []))]
  return useQueries({
    queries: ids.map((id) => ({
      ...anything<Instance>(`/api/object-classes/${id}/`),
      staleTime: 60_000,
      retry: false,
    })),
    combine: (answers) => new Map(answers.flatMap(({ data }) => (data ? [[Number(data.id), `${data.name}`]] : []))),
  })
}

export function Report({ path, token }: { path: string; token: string }) {
  const checked = useQuery({
    queryKey: [`${path}check/`, token],
    queryFn: async () => (await call<TemplateCheck>('POST', `${path}check/`, { body: { template_file: token } })).data,
    staleTime: Number.POSITIVE_INFINITY,
  })
  const names = useNames((checked.data?.merge_fields ?? []).slice(0, MOST))
  if (checked.error) {
    const { error } = checked
    const messages = error instanceof Refusal && error.status === 400 ? Object.values(error.body).flat() : undefined
    if (!messages) return <Failure error={error} onRetry={() => void checked.refetch()} />
    return (
      <div className={css.notice} data-tone="danger" role="alert">
        <p>{messages.map(String).join(' ')}</p>
      </div>
    )
  }
  if (!checked.data) return <p role="status">{t('templates.checking')}</p>
  const { merge_fields: fields, errors } = checked.data
  return (
    <section className={generic.section}>
      <h2>{t('templates.check')}</h2>
      <div className={css.notice} data-tone={errors.length > 0 ? 'danger' : 'ok'} role="status">
        {errors.length === 0 && <p>{t('templates.fine', { count: fields.length })}</p>}
        {errors.map((error) => (
          <p key={error}>{error}</p>
        ))}
      </div>
      {fields.length > 0 && (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keyboard
        <div className={generic.scroll} tabIndex={0} role="region" aria-label={t('templates.check')}>
          <table className={generic.table}>
            <thead>
              <tr>
                <th scope="col">{t('templates.field')}</th>
                <th scope="col">{t('templates.class')}</th>
                <th scope="col">{t('templates.place')}</th>
                <th scope="col">{t('templates.known')}</th>
              </tr>
            </thead>
            <tbody>
              {fields.slice(0, MOST).map(({ field, place, object_class: of, is_known: isKnown }) => (
                <tr key={`${field} ${place} ${of}`}>
                  <th scope="row">
                    <code>{field}</code>
                  </th>
                  <td data-label={t('templates.class')}>{of === null ? '' : (names.get(of) ?? `#${of}`)}</td>
                  <td data-label={t('templates.place')}>{t(`templates.place.${place}` as Key)}</td>
                  <td data-label={t('templates.known')}>
                    <Tag value={isKnown ? 'ok' : 'failed'}>{t(isKnown ? 'yes' : 'no')}</Tag>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {fields.length > MOST && <p className={css.hint}>{t('and-more', { count: fields.length - MOST })}</p>}
    </section>
  )
}
