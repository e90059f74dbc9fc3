//! Rows in pages of about 8 KiB.
//!
//! A write under a snapshot preserves the whole page. Keys are spread evenly, so the first push after a snapshot
//! preserves about one page per row. Pages are small to keep that cheap.

use std::iter;

use super::RowNumber;
use super::record::{RecordShape, words_of};

/// The most bytes of a page, unless a single row is larger.
const MAX_PAGE_BYTES: usize = 8 << 10;
/// The initial capacity of a table's first page, in rows: in small models most tables of a partition stay small.
const FIRST_ROWS: usize = 4;

#[derive(Debug)]
pub(crate) struct Pages {
    shape: RecordShape,
    /// A page has `1 << shift` rows.
    shift: u32,
    pages: Vec<Page>,
    rows: RowNumber,
}

#[derive(Debug)]
pub(crate) struct Page {
    /// The records of its rows, concatenated.
    pub(crate) words: Vec<u32>,
    /// The latest snapshot for which this page was preserved; 0 for none.
    pub(crate) preserved_for: u64,
}

struct RowLocation {
    page: u32,
    word: usize,
}

impl Pages {
    pub(super) fn new(shape: RecordShape) -> Self {
        let shift = (MAX_PAGE_BYTES / shape.bytes()).max(1).ilog2();
        Self { shape, shift, pages: Vec::new(), rows: 0 }
    }

    pub(super) fn shape(&self) -> RecordShape {
        self.shape
    }

    pub(super) fn rows(&self) -> RowNumber {
        self.rows
    }

    pub(super) fn bytes(&self) -> usize {
        let words: usize = self.pages.iter().map(|page| page.words.capacity()).sum();
        words * size_of::<u32>() + self.pages.capacity() * size_of::<Page>()
    }

    #[inline]
    pub(super) fn key(&self, row: RowNumber) -> u64 {
        self.shape.key(self.words(row))
    }

    #[inline]
    pub(super) fn words(&self, row: RowNumber) -> &[u32] {
        let RowLocation { page, word } = self.locate(row);
        &self.pages[page as usize].words[word..word + self.shape.words()]
    }

    #[inline]
    pub(super) fn words_mut(&mut self, row: RowNumber) -> &mut [u32] {
        let RowLocation { page, word } = self.locate(row);
        let words = self.shape.words();
        &mut self.pages[page as usize].words[word..word + words]
    }

    #[inline]
    pub(super) fn record_mut(&mut self, row: RowNumber) -> (Option<&mut u32>, &mut [f32]) {
        let shape = self.shape;
        shape.parts_mut(self.words_mut(row))
    }

    #[inline]
    pub(super) fn page_of(&self, row: RowNumber) -> u32 {
        row >> self.shift
    }

    pub(crate) fn first_row(&self, page: u32) -> RowNumber {
        page << self.shift
    }

    /// The latest snapshot for which a page was preserved; 0 for none.
    #[inline]
    pub(super) fn preserved_for(&self, page: u32) -> u64 {
        self.pages[page as usize].preserved_for
    }

    pub(super) fn page_mut(&mut self, page: u32) -> &mut Page {
        &mut self.pages[page as usize]
    }

    #[inline]
    fn locate(&self, row: RowNumber) -> RowLocation {
        let row_in_page = row & ((1 << self.shift) - 1);
        RowLocation { page: row >> self.shift, word: row_in_page as usize * self.shape.words() }
    }

    /// Appends a row of zeros. The caller has checked that the table has room.
    pub(super) fn push(&mut self, key: u64) -> RowNumber {
        let row = self.rows;
        self.rows += 1;
        let (words, most) = (self.shape.words(), self.shape.words() << self.shift);
        if self.locate(row).word == 0 {
            // The first page grows on demand. Later pages are allocated whole: a table that filled one fills the next.
            let room = if row == 0 { most.min(FIRST_ROWS * words) } else { most };
            self.pages.push(Page { words: Vec::with_capacity(room), preserved_for: 0 });
        }
        let page = &mut self.pages[(row >> self.shift) as usize];
        if page.words.len() + words > page.words.capacity() {
            page.words.reserve_exact(page.words.len().max(words).min(most - page.words.len()));
        }
        page.words.extend(words_of(key));
        page.words.extend(iter::repeat_n(0, words - 2));
        row
    }

    /// The number of pages with the first `rows` rows.
    pub(crate) fn pages_of(&self, rows: RowNumber) -> u32 {
        rows.div_ceil(1 << self.shift)
    }

    /// The number of the first `rows` rows that are on a page.
    pub(crate) fn rows_on(&self, page: u32, rows: RowNumber) -> usize {
        let first = u64::from(page) << self.shift;
        u64::from(rows).saturating_sub(first).min(1 << self.shift) as usize
    }

    pub(crate) fn page_words(&self, page: u32) -> &[u32] {
        &self.pages[page as usize].words
    }

    /// The page of a row and the offset of its record there, in words.
    pub(crate) fn page_and_word(&self, row: RowNumber) -> (u32, usize) {
        let location = self.locate(row);
        (location.page, location.word)
    }
}
