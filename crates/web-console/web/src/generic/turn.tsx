import { useQueryClient } from '@tanstack/react-query'
import { useEffect } from 'react'
import type { page as pageQuery } from '../api/query.ts'
import type { Page } from '../api/shapes.ts'
import { Button } from '../kit/buttons.tsx'
import css from '../kit/controls.module.css'
import { t } from '../texts.ts'
import { lastPage } from './address.ts'

/** The links to the neighbouring pages of a list within a screen, if there are any. */
export function Turn({
  page,
  offset,
  size,
  query,
  onTurn,
}: {
  page: Page | undefined
  offset: number
  size: number
  /** Reads the page at an offset: the next one is fetched when focus or pointer nears it. */
  query: (offset: number) => ReturnType<typeof pageQuery>
  onTurn: (offset: number) => void
}) {
  const queries = useQueryClient()
  const back = page && lastPage(page, offset, size)
  // biome-ignore lint/correctness/useExhaustiveDependencies: `go` is a new function in each drawing
  useEffect(() => {
    if (back !== undefined) onTurn(back)
  }, [back])
  const prefetch = () => {
    if (page?.next) void queries.prefetchQuery(query(offset + size))
  }
  if (!page?.next && offset === 0) return null
  return (
    <div className={css.actions}>
      <Button isDisabled={offset === 0} onPress={() => onTurn(Math.max(0, offset - size))}>
        {t('previous-page')}
      </Button>
      <Button
        isDisabled={!page?.next}
        onPointerEnter={prefetch}
        onFocus={prefetch}
        onPress={() => onTurn(offset + size)}
      >
        {t('next-page')}
      </Button>
    </div>
  )
}
