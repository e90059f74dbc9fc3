//! Rows in pages of about 8 KiB. A page is put aside whole when a row of it changes under a snapshot, and keys are spread
//! evenly, so that the first push after that pays for as many pages as it has rows: pages are small.

use std::iter;

use super::RowNumber;
use super::record::{RecordShape, words_of};

/// The most bytes of a page, unless a single row is larger.
const MAX_PAGE_BYTES: usize = 8 << 10;
/// How many rows the first page has room for at first: most tables of most partitions of small models stay small.
const FIRST_ROWS: usize = 4;

/// Pages with rows of one shape.
#[derive(Debug)]
pub(crate) struct Pages {
    shape: RecordShape,
    /// A page has this power of two of rows.
    shift: u32,
    pages: Vec<Page>,
    rows: RowNumber,
}

/// Rows that lie together.
#[derive(Debug)]
pub(crate) struct Page {
    /// The records of its rows, one behind the other.
    pub(crate) words: Vec<u32>,
    /// The latest snapshot that has what it needs of this page.
    pub(crate) kept: u64,
}

/// Where a row lies.
struct RowPlace {
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

    /// The record of a row.
    #[inline]
    pub(super) fn words(&self, row: RowNumber) -> &[u32] {
        let RowPlace { page, word } = self.place(row);
        &self.pages[page as usize].words[word..word + self.shape.words()]
    }

    #[inline]
    pub(super) fn words_mut(&mut self, row: RowNumber) -> &mut [u32] {
        let RowPlace { page, word } = self.place(row);
        let words = self.shape.words();
        &mut self.pages[page as usize].words[word..word + words]
    }

    #[inline]
    pub(super) fn record_mut(&mut self, row: RowNumber) -> (Option<&mut u32>, &mut [f32]) {
        let shape = self.shape;
        shape.parts_mut(self.words_mut(row))
    }

    /// The page of a row.
    #[inline]
    pub(super) fn page_of(&self, row: RowNumber) -> u32 {
        row >> self.shift
    }

    /// The first row of a page.
    pub(crate) fn first_row(&self, page: u32) -> RowNumber {
        page << self.shift
    }

    /// The latest snapshot that has what it needs of a page.
    #[inline]
    pub(super) fn kept(&self, page: u32) -> u64 {
        self.pages[page as usize].kept
    }

    pub(super) fn page_mut(&mut self, page: u32) -> &mut Page {
        &mut self.pages[page as usize]
    }

    #[inline]
    fn place(&self, row: RowNumber) -> RowPlace {
        let inside = row & ((1 << self.shift) - 1);
        RowPlace { page: row >> self.shift, word: inside as usize * self.shape.words() }
    }

    /// Adds a row of zeros. The owner has asked for room before.
    pub(super) fn push(&mut self, key: u64) -> RowNumber {
        let row = self.rows;
        self.rows += 1;
        let (words, most) = (self.shape.words(), self.shape.words() << self.shift);
        if self.place(row).word == 0 {
            // The first page of a table grows with it; who fills one page will fill the next.
            let room = if row == 0 { most.min(FIRST_ROWS * words) } else { most };
            self.pages.push(Page { words: Vec::with_capacity(room), kept: 0 });
        }
        let page = &mut self.pages[(row >> self.shift) as usize];
        if page.words.len() + words > page.words.capacity() {
            page.words.reserve_exact(page.words.len().max(words).min(most - page.words.len()));
        }
        page.words.extend(words_of(key));
        page.words.extend(iter::repeat_n(0, words - 2));
        row
    }

    /// How many pages hold the first `rows` rows.
    pub(crate) fn pages_of(&self, rows: RowNumber) -> u32 {
        rows.div_ceil(1 << self.shift)
    }

    /// How many of the first `rows` rows are on a page.
    pub(crate) fn rows_on(&self, page: u32, rows: RowNumber) -> usize {
        let first = u64::from(page) << self.shift;
        u64::from(rows).saturating_sub(first).min(1 << self.shift) as usize
    }

    /// The words of a page.
    pub(crate) fn page_words(&self, page: u32) -> &[u32] {
        &self.pages[page as usize].words
    }

    /// Page of a row and its record's place there, in words.
    pub(crate) fn page_and_word(&self, row: RowNumber) -> (u32, usize) {
        let place = self.place(row);
        (place.page, place.word)
    }
}
