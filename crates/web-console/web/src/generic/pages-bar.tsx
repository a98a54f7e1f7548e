// The position in a list, and the links to its other pages.

import { useQueryClient } from '@tanstack/react-query'
import { useEffect } from 'react'
import type { page as pageQuery } from '../api/query.ts'
import type { Page } from '../api/shapes.ts'
import { Button } from '../kit/buttons.tsx'
import css from '../kit/controls.module.css'
import { t } from '../texts.ts'
import { type ListState, lastPage, SIZES } from './address.ts'
import look from './generic.module.css'

/** Goes to the last page, if the page of the address is beyond it. */
export function useLastPage(page: Page | undefined, state: ListState, set: (state: ListState) => void) {
  const back = page && lastPage(page, state.offset, state.limit)
  // biome-ignore lint/correctness/useExhaustiveDependencies: `go` is a new function in each drawing
  useEffect(() => {
    if (back !== undefined) set({ ...state, offset: back })
  }, [back])
}

export function Pages({
  page,
  state,
  limit,
  next,
  onChange,
}: {
  page: Page
  state: ListState
  /** The maximum number of objects in the build. */
  limit?: number | undefined
  /** Reads the next page, which is fetched when focus or pointer nears it. */
  next?: ReturnType<typeof pageQuery>
  onChange: (state: ListState) => void
}) {
  const queries = useQueryClient()
  const { filtered_count: matching, total_count: total, results } = page
  const prefetch = () => {
    if (page.next && next) void queries.prefetchQuery(next)
  }
  return (
    <nav className={look.pages} aria-label={t('pages')}>
      <span role="status">
        {matching === null && page.next
          ? t('range-more', { from: state.offset + 1, to: state.offset + results.length })
          : t('range', {
              from: results.length ? state.offset + 1 : 0,
              to: state.offset + results.length,
              of: matching ?? state.offset + results.length,
            })}
        {total !== null && total !== matching && ` ${t('of-all', { count: total ?? 0 })}`}
        {limit !== undefined && ` · ${t('limit-of', { count: limit })}`}
      </span>
      <div className={look.spacer} />
      <label className={look.size}>
        {t('rows')}
        <select
          className={css.input}
          value={state.limit}
          onChange={(event) => onChange({ ...state, limit: Number(event.target.value), offset: 0 })}
        >
          {SIZES.map((size) => (
            <option key={size}>{size}</option>
          ))}
        </select>
      </label>
      <Button
        icon="chevron-left"
        aria-label={t('previous-page')}
        isDisabled={!page.previous}
        onPress={() => onChange({ ...state, offset: Math.max(0, state.offset - state.limit) })}
      />
      <Button
        icon="chevron-right"
        aria-label={t('next-page')}
        isDisabled={!page.next}
        onPointerEnter={prefetch}
        onFocus={prefetch}
        onPress={() => onChange({ ...state, offset: state.offset + state.limit })}
      />
    </nav>
  )
}
