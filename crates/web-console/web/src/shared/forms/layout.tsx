// A form as its configuration lays it out.

import type { ReactNode } from 'react'
import type { Fields, Use } from '../../api/shapes.ts'
import generic from '../../generic/generic.module.css'
import { ShownComponent } from './component-input.tsx'
import { kindOf, placedIn, type Section, STANDALONE } from './configuration.ts'
import look from './forms.module.css'

function One({ item, use, input }: { item: Fields; use: Use; input: (alias: string) => ReactNode }) {
  const kind = kindOf(item)
  const width = item.width === 'half' ? look.half : look.full
  if (kind === 'text') return <p className={`${look.full} ${generic.written}`}>{`${item.text}`}</p>
  const custom = placedIn(item, use)
  if (custom && typeof item.field !== 'string') {
    return (
      <div className={width}>
        <ShownComponent custom={custom} label={typeof item.label === 'string' ? item.label : undefined} />
      </div>
    )
  }
  return <div className={width}>{input(`${item.field}`)}</div>
}

export function Layout({
  sections,
  use = STANDALONE,
  input,
}: {
  sections: Section[]
  use?: Use
  input: (alias: string) => ReactNode
}) {
  return (
    <>
      {sections.map((section, n) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: sections have no name of their own
        <section key={n} className={generic.section}>
          {section.title && <h2>{section.title}</h2>}
          {section.text && <p className={generic.written}>{section.text}</p>}
          <div className={look.grid}>
            {section.items.map((item, at) => (
              // biome-ignore lint/suspicious/noArrayIndexKey: items neither
              <One key={`${item.field ?? ''} ${at}`} item={item} use={use} input={input} />
            ))}
          </div>
        </section>
      ))}
    </>
  )
}
